//! Values of keywords that every JSON Schema validator accepts: unique, and not empty.

use std::collections::HashSet;

use haft_core::schema::canonical_json;
use serde_json::{Map, Value};

/// Returns `values` without repetitions. 1 and 1.0 are equal (JSON Schema 2020-12, section 4.2.2).
pub(super) fn unique_values(values: impl IntoIterator<Item = Value>) -> Vec<Value> {
    let mut seen = HashSet::new();
    values.into_iter().filter(|value| seen.insert(key(value))).collect()
}

/// Returns `true` if an element of `values` is equal to `value`.
pub(super) fn contains(values: &[Value], value: &Value) -> bool {
    let wanted = key(value);
    values.iter().any(|it| key(it) == wanted)
}

/// Returns the value of the keyword `type` with each type once. `None` if it names no type. A null
/// is the type `null`, whose quotation marks YAML needs.
pub(super) fn types(value: &Value) -> Option<Value> {
    let Value::Array(types) = value else { return Some(type_name(value)) };
    let types = unique_values(types.iter().map(type_name));
    match <[Value; 1]>::try_from(types) {
        Ok([only]) => Some(only),
        Err(types) if types.is_empty() => None,
        Err(types) => Some(types.into()),
    }
}

fn type_name(value: &Value) -> Value {
    match value {
        Value::Null => "null".into(),
        // The type of Swagger 2.0 for an upload.
        Value::String(name) if name == "file" => "string".into(),
        other => other.clone(),
    }
}

/// Returns a text that is the same for equal values.
fn key(value: &Value) -> String {
    canonical_json(&normalized(value))
}

/// Returns `value` with integers as text, so that 1 and 1.0 are the same and differ from `"1"`.
fn normalized(value: &Value) -> Value {
    match value {
        Value::Number(number) => {
            let integer = number.as_f64().filter(|float| number.is_f64() && float.fract() == 0.0);
            // Without the sign of -0.0.
            let text = integer.map_or_else(|| number.to_string(), |float| format!("{:.0}", float + 0.0));
            Value::Array(vec![Value::Null, text.into()])
        }
        Value::Array(items) => {
            std::iter::once(Value::Bool(true)).chain(items.iter().map(normalized)).collect()
        }
        Value::Object(members) => {
            let members = members.iter().map(|(key, value)| (key.clone(), normalized(value)));
            Value::Object(members.collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}
