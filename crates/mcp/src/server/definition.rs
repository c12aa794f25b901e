use std::{borrow::Cow, sync::Arc};

use haft_core::{Schema, ToolDefinition};
use rmcp::model::{JsonObject, MetaObject, Tool, ToolAnnotations};
use serde_json::Value;

/// Encodes `definition` as an entry of the tool list.
pub(super) fn encode_definition(definition: &ToolDefinition) -> Tool {
    let description = Some(definition.description()).filter(|text| !text.is_empty());
    let description = description.map(|text| Cow::Owned(text.to_owned()));
    let name = definition.name().as_str().to_owned();
    let mut tool =
        Tool::new_with_raw(name, description, to_json_object(definition.input_schema().as_value().clone()));
    tool.title = definition.title().map(str::to_owned);
    tool.output_schema = definition.output_schema().map(|schema| to_json_object(with_object_root(schema)));
    let hints = definition.annotations();
    if *hints != haft_core::tool::Annotations::default() {
        let (read_only, destructive) = (hints.read_only, hints.destructive);
        let (idempotent, open_world) = (hints.idempotent, hints.open_world);
        tool.annotations =
            Some(ToolAnnotations::from_raw(None, read_only, destructive, idempotent, open_world));
    }
    if !definition.metadata().is_empty() {
        tool.meta = serde_json::from_value::<MetaObject>(Value::Object(definition.metadata().clone())).ok();
    }
    tool
}

/// Returns `true` if `schema` declares `"type": "object"`.
pub(super) fn has_object_root(schema: &Schema) -> bool {
    schema.as_value().get("type").is_some_and(|root| root == "object")
}

/// Returns `schema` if it is an object schema. If it is not, returns an object schema in which
/// `schema` describes the property `result`, because MCP requires object schemas.
fn with_object_root(schema: &Schema) -> Value {
    if has_object_root(schema) { schema.as_value().clone() } else { schema.wrapped_in_object("result") }
}

fn to_json_object(schema: Value) -> Arc<JsonObject> {
    match schema {
        Value::Object(schema) => Arc::new(schema),
        // The schema `true` is encoded as `{}`, which also accepts any value.
        _ => Arc::default(),
    }
}
