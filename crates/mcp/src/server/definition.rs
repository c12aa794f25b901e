use std::{borrow::Cow, sync::Arc};

use haft_core::{Schema, ToolDefinition};
use rmcp::model::{JsonObject, MetaObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

/// Writes a definition for the client.
pub(super) fn written(definition: &ToolDefinition) -> Tool {
    let description = Some(definition.description()).filter(|text| !text.is_empty());
    let description = description.map(|text| Cow::Owned(text.to_owned()));
    let name = definition.name().as_str().to_owned();
    let mut tool =
        Tool::new_with_raw(name, description, object(definition.input_schema().as_value().clone()));
    tool.title = definition.title().map(str::to_owned);
    tool.output_schema = definition.output_schema().map(|schema| object(with_object_root(schema)));
    let hints = definition.annotations();
    if *hints != haft_core::Annotations::default() {
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

/// Whether every value that fits a schema is an object.
pub(super) fn is_object(schema: &Schema) -> bool {
    schema.as_value().get("type").is_some_and(|root| root == "object")
}

/// The protocol wants a schema of objects: any other becomes the schema of a property `result`.
fn with_object_root(schema: &Schema) -> Value {
    let mut inner = schema.as_value().clone();
    if is_object(schema) {
        return inner;
    }
    let dialect = inner.as_object_mut().and_then(|inner| inner.shift_remove("$schema"));
    // Below an `$id` of its own a reference counts from there, and stays right.
    if inner.get("$id").is_none() {
        move_references(&mut inner);
    }
    match dialect {
        Some(dialect) => json!({
            "$schema": dialect, "type": "object", "properties": {"result": inner}, "required": ["result"],
        }),
        None => json!({"type": "object", "properties": {"result": inner}, "required": ["result"]}),
    }
}

/// Makes references into the document find their places below `result`.
fn move_references(schema: &mut Value) {
    match schema {
        Value::Object(keywords) => {
            for (keyword, value) in keywords {
                match (keyword.as_str(), value) {
                    ("$ref" | "$dynamicRef", Value::String(reference)) => {
                        if let Some(pointer) =
                            reference.strip_prefix('#').filter(|it| it.is_empty() || it.starts_with('/'))
                        {
                            *reference = format!("#/properties/result{pointer}");
                        }
                    }
                    // Data, not schemas.
                    ("const" | "enum" | "default" | "examples", _) => {}
                    (_, value) => move_references(value),
                }
            }
        }
        Value::Array(schemas) => schemas.iter_mut().for_each(move_references),
        _ => {}
    }
}

fn object(schema: Value) -> Arc<JsonObject> {
    match schema {
        Value::Object(schema) => Arc::new(schema),
        // `true` is a schema too: anything goes.
        _ => Arc::default(),
    }
}
