use std::borrow::Cow;

use haft_core::{
    ToolOutput,
    content::{Content, ResourceBody},
    text::{is_hidden, without_hidden_chars},
};
use serde_json::Value;

/// Returns `text` with hidden characters escaped: `\u{202e}`.
pub(crate) fn escape_hidden(text: &str) -> String {
    let mut visible = String::with_capacity(text.len());
    for letter in text.chars() {
        match is_hidden(letter) {
            true => visible.extend(letter.escape_unicode()),
            false => visible.push(letter),
        }
    }
    visible
}

/// Removes hidden characters from the texts of `output`. Its structured content and its metadata
/// are for programs and unchanged.
pub(crate) fn remove_from_output(output: &mut ToolOutput) {
    for content in &mut output.content {
        match content {
            Content::Text { text } => remove(text),
            Content::Image { media_type, .. }
            | Content::Audio { media_type, .. }
            | Content::Blob { media_type, .. } => remove(media_type),
            Content::Resource { uri, media_type, body } => {
                [uri].into_iter().chain(media_type).for_each(remove);
                if let ResourceBody::Text(text) = body {
                    remove(text);
                }
            }
            Content::ResourceLink { uri, name, description, media_type } => {
                [uri, name].into_iter().chain(description).chain(media_type).for_each(remove);
            }
            Content::Json { value } => remove_from_value(value),
            _ => {}
        }
    }
    output.warnings.iter_mut().for_each(remove);
}

/// Removes hidden characters from all texts and keys in `value`.
pub(crate) fn remove_from_value(value: &mut Value) {
    match value {
        Value::String(text) => remove(text),
        Value::Array(items) => items.iter_mut().for_each(remove_from_value),
        Value::Object(members) => {
            let visible = std::mem::take(members).into_iter().map(|(mut key, mut value)| {
                remove(&mut key);
                remove_from_value(&mut value);
                (key, value)
            });
            *members = visible.collect();
        }
        _ => {}
    }
}

/// Removes hidden characters from all texts and names in `schema`, also from values such as those
/// of `enum`: models read the whole schema. In a pattern, which may need control characters, they
/// are escaped.
pub(crate) fn remove_from_schema(schema: &mut Value) {
    match schema {
        Value::String(text) => remove(text),
        Value::Array(items) => items.iter_mut().for_each(remove_from_schema),
        Value::Object(members) => {
            let visible = std::mem::take(members).into_iter().map(|(mut key, mut value)| {
                remove(&mut key);
                match (key.as_str(), &mut value) {
                    ("pattern", Value::String(pattern)) => *pattern = escape_in_pattern(pattern),
                    ("patternProperties", Value::Object(schemas)) => {
                        let patterns = std::mem::take(schemas).into_iter();
                        *schemas = patterns.map(|(key, value)| (escape_in_pattern(&key), value)).collect();
                        schemas.values_mut().for_each(remove_from_schema);
                    }
                    (_, value) => remove_from_schema(value),
                }
                (key, value)
            });
            *members = visible.collect();
        }
        _ => {}
    }
}

/// Returns `pattern` with hidden characters escaped as in ECMA-262 (`\u200b`), so that it matches
/// the same texts.
fn escape_in_pattern(pattern: &str) -> String {
    let mut visible = String::with_capacity(pattern.len());
    for letter in pattern.chars() {
        match u32::from(letter) {
            code if is_hidden(letter) && code > 0xffff => visible.extend(letter.escape_unicode()),
            code if is_hidden(letter) => visible += &format!("\\u{code:04x}"),
            _ => visible.push(letter),
        }
    }
    visible
}

fn remove(text: &mut String) {
    if let Cow::Owned(visible) = without_hidden_chars(text) {
        *text = visible;
    }
}

#[cfg(test)]
mod tests {
    use haft_core::{Schema, text::is_hidden};
    use serde_json::json;

    use super::remove_from_schema;

    /// No hidden character of a schema is left, wherever it is, and visible texts are unchanged.
    #[test]
    fn schema_has_no_hidden_characters() {
        let visible = json!({
            "type": "object", "title": "T", "description": "A note.", "required": ["default", "name"],
            "properties": {
                "default": {"type": "string", "description": "One."},
                "examples": {"description": "Two."},
                "const": {"properties": {"title": {"description": "Three."}}},
                "enum": {"anyOf": [{"description": "Four."}, {"$ref": "#/$defs/name"}]},
                "name": {
                    "enum": ["red", ["green"], {"deep": "blue"}], "default": "red", "const": "red",
                    "examples": [{"description": "Five."}], "$comment": "Six.", "x-note": "Seven.",
                },
            },
            "$defs": {"name": {"dependentRequired": {"name": ["default"]}}},
        });
        for hidden in ["\u{200b}", "\u{e0041}", "\u{202e}", "\u{1b}", "\u{3164}"] {
            let marked = with_hidden_chars(&visible.to_string(), hidden);
            let mut schema = serde_json::from_str(&marked).unwrap();
            remove_from_schema(&mut schema);
            assert_eq!(schema, visible, "{hidden:?}");
        }
    }

    /// Appends `hidden` to each text and name in `json`.
    fn with_hidden_chars(json: &str, hidden: &str) -> String {
        let mut marked = String::new();
        let mut is_inside = false;
        for letter in json.chars() {
            if letter == '"' {
                is_inside = !is_inside;
                if !is_inside {
                    marked += serde_json::to_string(hidden).unwrap().trim_matches('"');
                }
            }
            marked.push(letter);
        }
        marked
    }

    #[test]
    fn pattern_matches_the_same_texts() {
        let mut schema = json!({
            "pattern": "^[^\u{0}-\u{1f}\u{200b}\u{e0001}]*$",
            "patternProperties": {"^\u{200b}x": {"description": "a\u{200b}b"}},
        });
        let before = Schema::new(schema.clone()).unwrap();
        remove_from_schema(&mut schema);
        assert!(!schema.to_string().contains(is_hidden), "{schema}");
        assert_eq!(schema["patternProperties"]["^\\u200bx"]["description"], "ab");
        let after = Schema::new(schema).unwrap();
        for text in ["a-b", "", "a\u{7}", "a\u{200b}", "a\u{e0001}", "\u{e0002}"] {
            assert_eq!(before.is_valid(&json!(text)), after.is_valid(&json!(text)), "{text:?}");
        }
    }
}
