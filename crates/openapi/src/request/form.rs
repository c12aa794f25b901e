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
use crate::operation::{FieldEncoding, Style};

/// A multipart body.
pub(super) struct Multipart {
    pub(super) boundary: String,
    pub(super) bytes: Vec<u8>,
}

/// Returns the URL-encoded form of the object `value`.
///
/// An array becomes one field per item, and an object JSON text, unless `fields` has a style.
pub(super) fn url_encoded(value: &Value, fields: &BTreeMap<String, FieldEncoding>) -> String {
    let members = value.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    let pairs = members.flat_map(|(name, value)| {
        let style = fields.get(name).and_then(|field| field.style);
        match (style, value) {
            (Some(style), _) => style::query(name, style, value),
            (None, Value::Object(_)) => vec![format!("{}={}", encode(name), encode(&value.to_string()))],
            (None, _) => style::query(name, Style::Form { explode: true, allow_reserved: false }, value),
        }
    });
    pairs.collect::<Vec<_>>().join("&")
}

/// Returns the multipart form of the object `value`. An array becomes one part per item.
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
        let items = match value {
            Value::Array(items) => items.as_slice(),
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
    let content_type = field.content_type.as_deref();
    let (part, default) = match item {
        _ if field.is_binary => {
            let part = Part::bytes(decode_base64(&scalar_text(item))?).file_name(name.to_owned());
            (part, Some("application/octet-stream"))
        }
        Value::Object(_) | Value::Array(_) => (Part::text(item.to_string()), Some("application/json")),
        scalar => (Part::text(scalar_text(scalar)), None),
    };
    match content_type.or(default) {
        Some(media_type) => {
            part.mime_str(media_type).map_err(|_| format!("the media type {media_type:?} is invalid"))
        }
        None => Ok(part),
    }
}

/// Decodes `base64`, with or without padding. ASCII whitespace and a data URL prefix are ignored.
pub(super) fn decode_base64(base64: &str) -> Result<Vec<u8>, String> {
    let data = base64.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    let mut text = data.map_or(base64, |(_, data)| data).to_owned();
    text.retain(|character| !character.is_ascii_whitespace() && character != '=');
    text.extend(std::iter::repeat_n('=', text.len().wrapping_neg() % 4));
    STANDARD.decode(&text).map_err(|error| format!("it is not base64: {error}"))
}
