//! Puts the schema of a tool into a larger one.

use haft_core::{Schema, ToolDefinition, Value};
use serde_json::{Map, json};

/// The schema of a tool's arguments as a part of a schema that has these `$defs`.
///
/// References count from the root of a document, so a schema that has some becomes a definition of its own and they
/// follow it there. One that names its parts otherwise cannot be moved: of it only `object` is left. What the
/// constraint lets pass is held against the whole schema before the tool runs.
pub(super) fn embed(tool: &ToolDefinition, definitions: &mut Map<String, Value>) -> Value {
    let schema = tool.input_schema().as_value();
    let mut moved = schema.clone();
    let mut references = References { home: format!("#/$defs/{}", tool.name()), found: false, movable: true };
    references.rewrite(&mut moved);
    if let Value::Object(root) = &mut moved {
        root.shift_remove("$schema");
        root.shift_remove("$id");
        close_empty(root);
    }
    if !references.movable || Schema::new(schema_alone(tool, &moved)).is_err() {
        return json!({"type": "object"});
    }
    if !references.found {
        return moved;
    }
    definitions.insert(tool.name().to_string(), moved);
    json!({"$ref": references.home})
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

struct References {
    /// Where the root of the schema is moved to.
    home: String,
    found: bool,
    movable: bool,
}

impl References {
    fn rewrite(&mut self, schema: &mut Value) {
        match schema {
            Value::Object(keywords) => {
                for (keyword, value) in keywords {
                    self.rewrite_keyword(keyword, value);
                }
            }
            Value::Array(schemas) => schemas.iter_mut().for_each(|schema| self.rewrite(schema)),
            _ => {}
        }
    }

    fn rewrite_keyword(&mut self, keyword: &str, value: &mut Value) {
        match (keyword, value) {
            ("$ref", Value::String(target)) => match target.strip_prefix('#') {
                Some(path) if path.is_empty() || path.starts_with('/') => {
                    *target = format!("{}{path}", self.home);
                    self.found = true;
                }
                _ => self.movable = false,
            },
            ("$anchor" | "$dynamicRef" | "$dynamicAnchor", _) => self.movable = false,
            // Data, not schemas.
            ("const" | "enum" | "default" | "examples", _) => {}
            // Schemas by names that may look like keywords.
            (
                "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas"
                | "dependencies",
                Value::Object(schemas),
            ) => schemas.values_mut().for_each(|schema| self.rewrite(schema)),
            (_, value) => self.rewrite(value),
        }
    }
}
