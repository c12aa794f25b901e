//! Tells structured answers from calls, whose keys an answer can also have.

use haft_core::Schema;
use serde_json::{Value, json};

/// The maximum number of references and alternatives that are followed.
const MAX_DEPTH: usize = 8;

/// Returns `true` if `value` is a valid value of `outputs`, or of its `property`, whose schema
/// declares all keys of the value. A schema that accepts any keys also accepts a call.
pub(crate) fn is_declared_answer(outputs: &Schema, property: Option<&str>, value: &Value) -> bool {
    let is_valid = match property {
        None => outputs.is_valid(value),
        Some(name) => outputs.is_valid(&json!({name: value})),
    };
    is_valid && declares_keys(outputs, property, value)
}

/// Returns `true` if `outputs`, or the schema of its `property`, declares all keys of `value`. The
/// value can be an object, or a list of objects.
pub(crate) fn declares_keys(outputs: &Schema, property: Option<&str>, value: &Value) -> bool {
    let root = outputs.as_value();
    let schema = match property {
        None => Some(root),
        Some(name) => outputs.properties().find(|it| it.name == name).map(|property| property.schema),
    };
    schema.is_some_and(|schema| declares(root, schema, value, MAX_DEPTH))
}

fn declares(root: &Value, schema: &Value, value: &Value, depth: usize) -> bool {
    let Some(depth) = depth.checked_sub(1) else { return false };
    let target = schema.get("$ref").and_then(Value::as_str).and_then(|path| path.strip_prefix('#'));
    if let Some(target) = target.and_then(|path| root.pointer(path)) {
        return declares(root, target, value, depth);
    }
    let is_declared = match value {
        Value::Object(members) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            properties.is_some_and(|properties| members.keys().all(|key| properties.contains_key(key)))
        }
        Value::Array(items) => {
            let schema = schema.get("items");
            schema.is_some_and(|schema| items.iter().all(|item| declares(root, schema, item, depth)))
        }
        _ => true,
    };
    let alternatives = ["anyOf", "oneOf", "allOf"].into_iter().filter_map(|key| schema.get(key)?.as_array());
    is_declared || alternatives.flatten().any(|schema| declares(root, schema, value, depth))
}
