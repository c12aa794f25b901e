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

/// Removes hidden characters from the titles and descriptions in `schema`.
pub(crate) fn remove_from_schema(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            for (key, value) in members {
                match value {
                    Value::String(text) if matches!(key.as_str(), "description" | "title") => remove(text),
                    // The members of these keywords are values and not schemas.
                    _ if matches!(key.as_str(), "const" | "default" | "enum" | "examples") => {}
                    value => remove_from_schema(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(remove_from_schema),
        _ => {}
    }
}

fn remove(text: &mut String) {
    if let Cow::Owned(visible) = without_hidden_chars(text) {
        *text = visible;
    }
}
