//! Builds the response format that constrains replies to JSON steps.

use haft_core::{Schema, ToolDefinition, ToolName, model::ResponseFormat};
use serde_json::{Map, Value, json};

use super::{input_schema::embed_input_schema, key};

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
            key::THOUGHT: {"type": "string"},
            key::TOOL_NAME: {"const": definition.name()},
            key::TOOL_ARGS: embed_input_schema(definition, definitions),
        },
        "required": [key::THOUGHT, key::TOOL_NAME, key::TOOL_ARGS],
        "additionalProperties": false,
    })
}
