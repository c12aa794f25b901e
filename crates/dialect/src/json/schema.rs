//! The schema of a JSON step, which constrains replies.

use haft_core::{Schema, ToolDefinition, ToolName, model::ResponseFormat};
use serde_json::{Map, Value, json};

use super::keys;

/// Returns the response format of a step that calls one of `tools`. The JSON schema has one
/// alternative per tool.
///
/// Returns [`ResponseFormat::JsonObject`] if the combined schema is invalid, for example because it
/// is too large.
pub(super) fn step_response_format(tools: &[&ToolDefinition]) -> ResponseFormat {
    let mut definitions = Map::new();
    let alternatives: Vec<_> =
        tools.iter().map(|definition| step_alternative(definition, &mut definitions)).collect();
    let mut root = Map::from_iter([("anyOf".to_owned(), Value::Array(alternatives))]);
    if !definitions.is_empty() {
        root.insert("$defs".to_owned(), Value::Object(definitions));
    }
    match Schema::new(Value::Object(root)) {
        Ok(schema) => ResponseFormat::JsonSchema { name: ToolName::sanitize("step"), schema },
        Err(error) => {
            tracing::warn!(%error, "replies are not constrained: the schemas of the tools cannot be combined");
            ResponseFormat::JsonObject
        }
    }
}

fn step_alternative(definition: &ToolDefinition, definitions: &mut Map<String, Value>) -> Value {
    json!({
        "type": "object",
        "properties": {
            keys::THOUGHT: {"type": "string"},
            keys::TOOL_NAME: {"const": definition.name()},
            keys::TOOL_ARGS: embed_input_schema(definition, definitions),
        },
        "required": [keys::THOUGHT, keys::TOOL_NAME, keys::TOOL_ARGS],
        "additionalProperties": false,
    })
}

/// Returns the JSON schema of the arguments of `tool`, for use in a step schema whose `$defs` are
/// `definitions`.
///
/// A `$ref` is resolved from the root of its document. Therefore, this function moves a schema with
/// references to `definitions`, rebases its references, and returns a `$ref` to the moved schema.
///
/// Returns `{"type": "object"}` if the schema has anchors, or if the embedded schema is invalid,
/// for example because a reference does not resolve. The pipeline still validates the arguments
/// against the original schema before the tool runs.
fn embed_input_schema(tool: &ToolDefinition, definitions: &mut Map<String, Value>) -> Value {
    let pointer = format!("#/$defs/{}", tool.name());
    let mut embedded = tool.input_schema().embedded_at(&pointer);
    if let Value::Object(root) = &mut embedded.schema {
        root.shift_remove("$schema");
        root.shift_remove("$id");
        close_empty_object(root);
    }
    if embedded.has_anchors || Schema::new(standalone_document(tool, &embedded.schema)).is_err() {
        return json!({"type": "object"});
    }
    if !embedded.has_references {
        return embedded.schema;
    }
    definitions.insert(tool.name().to_string(), embedded.schema);
    json!({"$ref": pointer})
}

/// Sets `additionalProperties: false` in the JSON schema of a tool without parameters.
///
/// By default, an object without declared properties accepts any property. OpenAI's strict mode
/// rejects the whole step schema if it contains such an object.
fn close_empty_object(root: &mut Map<String, Value>) {
    let is_empty = |value: &Value| *value == json!({}) || *value == json!([]);
    let mut constraints =
        root.iter().filter(|(_, value)| !is_empty(value)).map(|(keyword, _)| keyword.as_str());
    let is_object = root.get("type").is_some_and(|name| name == "object");
    if is_object && constraints.all(|keyword| matches!(keyword, "type" | "title" | "description")) {
        root.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
}

/// Returns a JSON schema document with `embedded`, the schema of `tool`, as its only definition.
/// The document is compiled to check that all references in `embedded` resolve.
fn standalone_document(tool: &ToolDefinition, embedded: &Value) -> Value {
    json!({"$ref": format!("#/$defs/{}", tool.name()), "$defs": {tool.name().as_str(): embedded}})
}
