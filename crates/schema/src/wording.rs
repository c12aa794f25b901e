//! Short descriptions of schemas and values, for the text of violations.

use std::borrow::Cow;
use std::io::{self, Write};

use serde_json::{Map, Value};

use super::exact_json::inexact_literal;
use super::{json_type, reference, union_guards};

/// The maximum number of names, values or alternatives in a description. Longer lists are
/// shortened.
const MAX_LIST_MEMBERS: usize = 20;
/// The maximum length of a value that a description contains in full: 80 characters of a string, or
/// 80 bytes of JSON.
const MAX_VALUE_LENGTH: usize = 80;
/// The maximum nesting of subschemas in a description. Deeper subschemas are omitted.
const MAX_LEVELS: usize = 3;

/// Describes the values that `schema` allows, for example `integer or null`. References are
/// resolved in the document `root`.
pub(super) fn describe_schema(root: &Value, schema: &Value) -> String {
    describe_to_level(root, schema, MAX_LEVELS)
}

/// Describes `value` by its type and content, for example `string "abc"`. Long values are
/// shortened.
pub(super) fn describe_value(value: &Value) -> String {
    let kind = json_type(value);
    if let Some(literal) = inexact_literal(value) {
        return format!("number {}", shortened(literal, MAX_VALUE_LENGTH));
    }
    match value {
        Value::Null => kind.to_owned(),
        Value::String(text) => format!("string {}", quoted(text)),
        Value::Bool(_) | Value::Number(_) => format!("{kind} {value}"),
        Value::Array(items) => short_json(value).map_or_else(
            || format!("array of {}", pluralize(items.len() as u64, "item")),
            |json| format!("array {json}"),
        ),
        Value::Object(members) => short_json(value).map_or_else(
            || format!("object with {}", join_names(members.keys())),
            |json| format!("object {json}"),
        ),
    }
}

/// Describes the values of an `enum`, for example `one of "a", "b"`. A single value is described as
/// JSON.
pub(super) fn describe_one_of(values: &[Value]) -> String {
    match values {
        [only] => describe_constant(only),
        _ => format!("one of {}", join_limited(values.iter().map(describe_constant), values.len())),
    }
}

/// Formats `value` as JSON, or describes it with [`describe_value`] if the JSON is too long.
pub(super) fn describe_constant(value: &Value) -> String {
    short_json(value).unwrap_or_else(|| describe_value(value))
}

/// Formats `names` as a list of quoted names, for example `"a", "b"`. A list of more than 20 names
/// is shortened.
pub(super) fn join_names<'n>(names: impl ExactSizeIterator<Item = &'n String>) -> String {
    let total = names.len();
    join_limited(names.map(|name| quoted(name)), total)
}

/// Formats `text` in quotes, for example `"a"`. Text longer than 80 characters is shortened.
pub(super) fn quoted(text: &str) -> String {
    match text.char_indices().nth(MAX_VALUE_LENGTH) {
        None => Value::from(text).to_string(),
        Some((end, _)) => {
            let start = Value::from(text.get(..end).unwrap_or_default());
            format!("{start}… ({} characters)", text.chars().count())
        }
    }
}

/// Returns `text`, or its first `bytes` bytes and an ellipsis if it is longer.
pub(super) fn shortened(text: &str, bytes: usize) -> Cow<'_, str> {
    if text.len() <= bytes {
        return Cow::Borrowed(text);
    }
    let start = text.get(..text.floor_char_boundary(bytes)).unwrap_or_default();
    Cow::Owned(format!("{start}…"))
}

/// Formats `number` and the noun `thing`, in the singular or the plural, for example `1 item` or
/// `3 items`.
pub(super) fn pluralize(number: u64, thing: &str) -> String {
    let things = match (number, thing.strip_suffix('y')) {
        (1, _) => return format!("1 {thing}"),
        (_, Some(stem)) => format!("{stem}ies"),
        _ => format!("{thing}s"),
    };
    format!("{number} {things}")
}

/// Describes the JSON Schema format `name`. For well-known formats, an example is added, because a
/// model may not recognize the name alone.
pub(super) fn describe_format(name: &str) -> String {
    let example = match name {
        "date-time" => "2026-01-31T12:00:00Z",
        "date" => "2026-01-31",
        "time" => "12:00:00Z",
        "duration" => "PT1H30M",
        "email" | "idn-email" => "name@example.com",
        "hostname" | "idn-hostname" => "example.com",
        "ipv4" => "192.0.2.1",
        "ipv6" => "2001:db8::1",
        "uri" | "iri" => "https://example.com/page",
        "uuid" => "123e4567-e89b-12d3-a456-426614174000",
        _ => return format!("string of format {name}"),
    };
    format!("string of format {name}, such as {example}")
}

/// Joins descriptions of alternatives, without duplicates, into text such as `integer or null`.
/// Only the first 20 alternatives are used.
pub(super) fn join_with_or(alternatives: impl Iterator<Item = String>) -> String {
    let mut distinct: Vec<String> = Vec::new();
    for alternative in alternatives.take(MAX_LIST_MEMBERS) {
        if !distinct.contains(&alternative) {
            distinct.push(alternative);
        }
    }
    distinct.join(" or ")
}

fn describe_to_level(root: &Value, schema: &Value, level: usize) -> String {
    let schema = reference::follow(root, schema);
    let Value::Object(keywords) = schema else {
        return if schema == &Value::Bool(false) { "nothing" } else { "any value" }.to_owned();
    };
    if let Some(value) = keywords.get("const") {
        return describe_constant(value);
    }
    if let Some(Value::Array(values)) = keywords.get("enum") {
        return describe_one_of(values);
    }
    let alternatives = ["anyOf", "oneOf"].iter().find_map(|key| keywords.get(*key)?.as_array());
    match (keywords.get("type"), alternatives) {
        (Some(Value::String(name)), _) => describe_type(root, keywords, name, level),
        (Some(Value::Array(types)), _) => join_with_or(
            types.iter().filter_map(Value::as_str).map(|name| describe_type(root, keywords, name, level)),
        ),
        (_, Some(parts)) if level > 0 => join_with_or(
            parts
                .iter()
                .map(|part| describe_to_level(root, union_guards::original_alternative(part), level - 1)),
        ),
        _ if keywords.contains_key("properties") => describe_type(root, keywords, "object", level),
        _ => "value".to_owned(),
    }
}

fn describe_type(root: &Value, keywords: &Map<String, Value>, name: &str, level: usize) -> String {
    match name {
        "array" => match keywords.get("items") {
            Some(items) if level > 0 && items.is_object() => {
                format!("array of {}", describe_to_level(root, items, level - 1))
            }
            _ => "array".to_owned(),
        },
        "object" => match keywords.get("properties").and_then(Value::as_object) {
            Some(properties) if !properties.is_empty() => {
                format!("object with {}", join_names(properties.keys()))
            }
            _ => "object".to_owned(),
        },
        "string" => {
            keywords.get("format").and_then(Value::as_str).map_or_else(|| name.to_owned(), describe_format)
        }
        _ => name.to_owned(),
    }
}

fn join_limited(names: impl Iterator<Item = String>, total: usize) -> String {
    let names: Vec<_> = names.take(MAX_LIST_MEMBERS).collect();
    let rest = if total > names.len() { format!(", … ({total} in all)") } else { String::new() };
    names.join(", ") + &rest
}

/// Serializes `value` as JSON. Returns `None` if the JSON is longer than [`MAX_VALUE_LENGTH`]
/// bytes.
fn short_json(value: &Value) -> Option<String> {
    let mut bytes = LimitedWriter(Vec::new());
    serde_json::to_writer(&mut bytes, value).ok()?;
    String::from_utf8(bytes.0).ok()
}

struct LimitedWriter(Vec<u8>);

impl Write for LimitedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_VALUE_LENGTH {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
