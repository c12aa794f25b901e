//! Puts the schema of a tool into a larger one.

use haft_core::{Schema, ToolDefinition};
use serde_json::Value;
use serde_json::{Map, json};

/// The schema of a tool's arguments as a part of a schema that has these `$defs`.
///
/// References count from the root of a document, so a schema that has some becomes a definition of its own and they
/// follow it there. One that names its parts otherwise cannot be moved: of it only `object` is left. What the
/// constraint lets pass is held against the whole schema before the tool runs.
pub(super) fn embed(tool: &ToolDefinition, definitions: &mut Map<String, Value>) -> Value {
    let home = format!("#/$defs/{}", tool.name());
    let mut moved = tool.input_schema().embedded_at(&home);
    if let Value::Object(root) = &mut moved.schema {
        root.shift_remove("$schema");
        root.shift_remove("$id");
        close_empty(root);
    }
    if moved.has_names || Schema::new(schema_alone(tool, &moved.schema)).is_err() {
        return json!({"type": "object"});
    }
    if !moved.has_references {
        return moved.schema;
    }
    definitions.insert(tool.name().to_string(), moved.schema);
    json!({"$ref": home})
}

/// Says of the arguments of a tool that takes none that there are none. Inside another schema, an object of which nothing is said
/// may have any properties, and a server that takes only what is listed would refuse the whole.
fn close_empty(root: &mut Map<String, Value>) {
    let is_empty = |value: &Value| *value == json!({}) || *value == json!([]);
    let mut said = root.iter().filter(|(_, value)| !is_empty(value)).map(|(keyword, _)| keyword.as_str());
    let is_object = root.get("type").is_some_and(|it| it == "object");
    if is_object && said.all(|keyword| matches!(keyword, "type" | "title" | "description")) {
        root.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
}

/// A document with nothing but the moved schema, to see whether it holds there.
fn schema_alone(tool: &ToolDefinition, moved: &Value) -> Value {
    json!({"$ref": format!("#/$defs/{}", tool.name()), "$defs": {tool.name().as_str(): moved}})
}
