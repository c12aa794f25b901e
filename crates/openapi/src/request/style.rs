//! The styles of parameters (OpenAPI 3.1, section 4.8.12.3), as expansions of RFC 6570.

use serde_json::Value;

use super::encode::{encode, encode_cookie, encode_reserved, scalar_text};
use crate::operation::Style;

/// An encoder of values.
type Encoder = fn(&str) -> String;

/// Returns the expansion of `value` for a path. Empty if there is no value.
pub(super) fn path(name: &str, style: Style, value: &Value) -> String {
    match style {
        Style::Label { explode } => {
            let separator = if explode { "." } else { "," };
            format!(".{}", list(value, separator, explode, encode))
        }
        Style::Matrix { explode } => matrix(name, explode, value),
        Style::Json => encode(&value.to_string()),
        Style::Simple { explode } => list(value, ",", explode, encode),
        _ => list(value, ",", false, encode),
    }
}

/// Returns the value of a header. It is not encoded.
pub(super) fn header(style: Style, value: &Value) -> String {
    match style {
        Style::Json => value.to_string(),
        Style::Simple { explode } => list(value, ",", explode, str::to_owned),
        _ => list(value, ",", false, str::to_owned),
    }
}

/// Returns the pairs `name=value` of cookies.
pub(super) fn cookies(name: &str, style: Style, value: &Value) -> Vec<String> {
    let key = encode(name);
    match style {
        Style::Json => vec![format!("{key}={}", encode_cookie(&value.to_string()))],
        Style::Form { explode, .. } => form(&key, explode, value, encode_cookie),
        _ => form(&key, false, value, encode_cookie),
    }
}

/// Returns the pairs `name=value` of a query.
pub(super) fn query(name: &str, style: Style, value: &Value) -> Vec<String> {
    let encoder = |allow_reserved: bool| -> Encoder { if allow_reserved { encode_reserved } else { encode } };
    let key = encode(name);
    match (style, value) {
        (Style::Form { explode, allow_reserved }, _) => form(&key, explode, value, encoder(allow_reserved)),
        (Style::Delimited { separator, allow_reserved }, Value::Array(_) | Value::Object(_)) => {
            let separator = encode(&separator.to_string());
            pair(&key, list(value, &separator, false, encoder(allow_reserved))).into_iter().collect()
        }
        (Style::DeepObject { allow_reserved }, Value::Array(_) | Value::Object(_)) => {
            let mut pairs = Vec::new();
            deep_object(name, value, encoder(allow_reserved), &mut pairs);
            pairs
        }
        (Style::Json, _) => vec![format!("{key}={}", encode(&value.to_string()))],
        (Style::Delimited { allow_reserved, .. } | Style::DeepObject { allow_reserved }, _) => {
            form(&key, false, value, encoder(allow_reserved))
        }
        _ => form(&key, false, value, encode),
    }
}

/// Returns the items of an array in one text. `None` if each item is a value of its own.
pub(super) fn joined(style: Style, value: &Value) -> Option<String> {
    let separator = match (style, value) {
        (Style::Form { explode: false, .. }, Value::Array(_)) => ',',
        (Style::Delimited { separator, .. }, Value::Array(_)) => separator,
        _ => return None,
    };
    Some(list(value, &separator.to_string(), false, str::to_owned))
}

/// Returns `key=value`, or `None` if a list is empty (RFC 6570, section 2.3).
fn pair(key: &str, value: String) -> Option<String> {
    (!value.is_empty()).then(|| format!("{key}={value}"))
}

fn form(key: &str, explode: bool, value: &Value, encoder: Encoder) -> Vec<String> {
    match value {
        Value::Array(items) if explode => {
            items.iter().map(|item| format!("{key}={}", encoder(&scalar_text(item)))).collect()
        }
        Value::Object(members) if explode => {
            let members = members.iter().filter(|(_, value)| !value.is_null());
            members
                .map(|(name, value)| format!("{}={}", encode(name), encoder(&scalar_text(value))))
                .collect()
        }
        Value::Array(_) | Value::Object(_) => {
            pair(key, list(value, ",", false, encoder)).into_iter().collect()
        }
        scalar => vec![format!("{key}={}", encoder(&scalar_text(scalar)))],
    }
}

fn matrix(name: &str, explode: bool, value: &Value) -> String {
    let name = encode(name);
    let expand = |text: String| if text.is_empty() { format!(";{name}") } else { format!(";{name}={text}") };
    match value {
        Value::Array(items) if explode => {
            items.iter().map(|item| expand(encode(&scalar_text(item)))).collect()
        }
        Value::Object(members) if explode => {
            let member =
                |(key, value): (&String, &Value)| format!(";{}={}", encode(key), encode(&scalar_text(value)));
            members.iter().map(member).collect()
        }
        _ => expand(list(value, ",", false, encode)),
    }
}

/// Joins the items of an array with `separator`, or the members of an object: as `name=value` with
/// `explode`, and otherwise as `name`, `value`.
fn list(value: &Value, separator: &str, explode: bool, encoder: Encoder) -> String {
    let text = |value: &Value| encoder(&scalar_text(value));
    match value {
        Value::Array(items) => items.iter().map(text).collect::<Vec<_>>().join(separator),
        Value::Object(members) => {
            let between = if explode { "=" } else { separator };
            let member =
                |(name, value): (&String, &Value)| format!("{}{between}{}", encoder(name), text(value));
            let members = members.iter().filter(|(_, value)| !value.is_null());
            members.map(member).collect::<Vec<_>>().join(separator)
        }
        scalar => text(scalar),
    }
}

/// Adds `name[key]=value` for each member, at any depth. The specification leaves arrays undefined:
/// an array of scalars becomes `name[]=value`, and another array `name[0][key]=value`, which Rails,
/// PHP, qs and Stripe read.
fn deep_object(name: &str, value: &Value, encoder: Encoder, pairs: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (key, member) in members.iter().filter(|(_, value)| !value.is_null()) {
                deep_object(&format!("{name}[{key}]"), member, encoder, pairs);
            }
        }
        Value::Array(items) => {
            let is_nested = items.iter().any(|item| item.is_object() || item.is_array());
            for (index, item) in items.iter().enumerate() {
                let index = if is_nested { index.to_string() } else { String::new() };
                deep_object(&format!("{name}[{index}]"), item, encoder, pairs);
            }
        }
        scalar => pairs.push(format!("{}={}", encode(name), encoder(&scalar_text(scalar)))),
    }
}

#[cfg(test)]
mod tests;
