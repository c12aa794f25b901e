//! Serialization of JSON values in a canonical form.

use std::fmt::Write as _;

use serde_json::Value;

/// Serializes `value` as compact JSON with sorted object keys.
///
/// Use it for fingerprints and cache keys: two objects that differ only in the order of their keys
/// have the same text. Numbers are not normalized: `3` and `3.0` differ.
///
/// # Examples
///
/// ```
/// use haft_schema::canonical_json;
/// use serde_json::json;
///
/// assert_eq!(canonical_json(&json!({"b": [1, 2], "a": null})), r#"{"a":null,"b":[1,2]}"#);
/// ```
pub fn canonical_json(value: &Value) -> String {
    let mut text = String::new();
    write(value, &mut text);
    text
}

fn write(value: &Value, text: &mut String) {
    match value {
        Value::Array(items) => write_all(text, ['[', ']'], items, write),
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(key, _)| *key);
            write_all(text, ['{', '}'], members, |(key, value), text| {
                write_scalar(&Value::from(key.as_str()), text);
                text.push(':');
                write(value, text);
            });
        }
        scalar => write_scalar(scalar, text),
    }
}

fn write_all<T>(
    text: &mut String,
    [open, close]: [char; 2],
    parts: impl IntoIterator<Item = T>,
    write: impl Fn(T, &mut String),
) {
    text.push(open);
    for (index, part) in parts.into_iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        write(part, text);
    }
    text.push(close);
}

fn write_scalar(scalar: &Value, text: &mut String) {
    // Writing to a string never fails.
    let _ = write!(text, "{scalar}");
}
