//! Bodies of forms: URL-encoded and multipart.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures::TryStreamExt as _;
use haft_core::ToolError;
use reqwest::multipart::{Form, Part};
use serde_json::Value;

use super::{
    encode::{encode, scalar_text},
    invalid, style,
};
use crate::operation::{FieldEncoding, Style, media_type::is_json};

/// A multipart body.
pub(super) struct Multipart {
    pub(super) boundary: String,
    pub(super) bytes: Vec<u8>,
}

/// Returns the URL-encoded form of the object `value`.
///
/// An array becomes one field per item, and an object JSON text, unless `fields` has a style or
/// JSON as media type.
pub(super) fn url_encoded(value: &Value, fields: &BTreeMap<String, FieldEncoding>) -> String {
    let members = value.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    let pairs = members.flat_map(|(name, value)| {
        let field = fields.get(name);
        let is_json = field.and_then(|field| field.media_type(None)).is_some_and(is_json);
        match (field.and_then(|field| field.style), value) {
            (Some(style), _) => style::query(name, style, value),
            (None, _) if is_json => vec![format!("{}={}", encode(name), encode(&json_text(value)))],
            (None, Value::Object(_)) => vec![format!("{}={}", encode(name), encode(&value.to_string()))],
            (None, _) => style::query(name, Style::Form { explode: true, allow_reserved: false }, value),
        }
    });
    pairs.collect::<Vec<_>>().join("&")
}

/// Returns the multipart form of the object `value`. An array becomes one part per item, unless its
/// media type is JSON, or its style is a list in one text.
///
/// The default type of a part is `text/plain` for a scalar and `application/json` for an object
/// (OpenAPI 3.1, section 4.8.15.1). A part with bytes has a file name, because servers treat a part
/// without one as text.
pub(super) async fn multipart(
    value: &Value,
    fields: &BTreeMap<String, FieldEncoding>,
) -> Result<Multipart, ToolError> {
    let mut form = Form::new();
    let plain = FieldEncoding::default();
    for (name, value) in value.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()) {
        let field = fields.get(name).unwrap_or(&plain);
        let style = field.style.filter(|_| !field.is_binary);
        let text = style.and_then(|style| style::joined(style, value)).map(Value::String);
        let value = text.as_ref().unwrap_or(value);
        let is_json = !field.is_binary && field.media_type(None).is_some_and(is_json);
        let items = match value {
            Value::Array(items) if !is_json => items.as_slice(),
            other => std::slice::from_ref(other),
        };
        for item in items {
            let part = part(name, item, field).map_err(|reason| invalid(name, &reason))?;
            form = form.part(name.clone(), part);
        }
    }
    let boundary = form.boundary().to_owned();
    let chunks = form.into_stream().try_collect::<Vec<_>>().await;
    let chunks = chunks.map_err(|error| invalid("", &error.to_string()))?;
    let mut bytes = chunks.concat();
    if bytes.is_empty() {
        bytes = format!("--{boundary}--\r\n").into_bytes();
    }
    Ok(Multipart { boundary, bytes })
}

fn part(name: &str, item: &Value, field: &FieldEncoding) -> Result<Part, String> {
    let invalid = |media_type: &str| format!("the media type {media_type:?} is invalid");
    if field.is_binary {
        let text = scalar_text(item);
        let part = Part::bytes(decode_base64(&text)?).file_name(name.to_owned());
        let media_type = field.media_type(data_url_type(&text)).unwrap_or("application/octet-stream");
        return part.mime_str(media_type).map_err(|_| invalid(media_type));
    }
    let is_composed = item.is_object() || item.is_array();
    let media_type = field.media_type(None).or(is_composed.then_some("application/json"));
    let Some(media_type) = media_type else { return Ok(Part::text(scalar_text(item))) };
    let text = match is_json(media_type) {
        true => json_text(item),
        false if is_composed => return Err(format!("a part of type {media_type} is a text")),
        false => scalar_text(item),
    };
    Part::text(text).mime_str(media_type).map_err(|_| invalid(media_type))
}

/// Returns the JSON text of `value`. A string with a JSON object or array is that text already.
fn json_text(value: &Value) -> String {
    let is_json_text = |text: &str| {
        serde_json::from_str::<Value>(text).is_ok_and(|value| value.is_object() || value.is_array())
    };
    match value {
        Value::String(text) if is_json_text(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Returns the media type in `text`, a data URL such as `data:image/png;base64,…`.
fn data_url_type(text: &str) -> Option<&str> {
    let (head, _) = text.strip_prefix("data:")?.split_once(";base64,")?;
    head.split(';').next().filter(|media_type| media_type.contains('/'))
}

/// Decodes `base64`, with or without padding. ASCII whitespace and a data URL prefix are ignored.
pub(super) fn decode_base64(base64: &str) -> Result<Vec<u8>, String> {
    let data = base64.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    let mut text = data.map_or(base64, |(_, data)| data).to_owned();
    text.retain(|character| !character.is_ascii_whitespace() && character != '=');
    text.extend(std::iter::repeat_n('=', text.len().wrapping_neg() % 4));
    STANDARD.decode(&text).map_err(|error| format!("it is not base64: {error}"))
}
