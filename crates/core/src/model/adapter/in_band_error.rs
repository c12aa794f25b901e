//! Errors in a stream, or in a response with HTTP status 200.

use serde_json::{Map, Value};

use crate::{
    model::{ModelError, ServerError},
    text::truncate_with_ellipsis,
};

/// The maximum length of an excerpt of a server's message, in bytes, without the ellipsis.
const EXCERPT_BYTES: usize = 1000;

/// Converts `error`, which arrived in a stream or in a response with HTTP status 200, to a
/// [`ModelError`].
pub fn in_band_error(error: &Value) -> ModelError {
    let parsed = ServerError::from_json(error).unwrap_or_else(|| ServerError::parse(&error.to_string()));
    parsed.into_model_error(None, None)
}

/// Converts `body` to a [`ModelError`] if it contains an error message instead of a reply. Returns
/// `None` for any other body.
pub fn error_in_place_of_reply(body: &Value) -> Option<ModelError> {
    let error = ServerError::from_json(body).filter(ServerError::has_message)?;
    Some(error.into_model_error(None, None))
}

/// Returns `true` if `body` has a message and an error code, or if a field of it, at any depth, is
/// an error object. Gateways send `{"error_code": …, "message": …}`, `{"data": {"error": …}}` or
/// `{"errors": […]}` in a stream.
pub fn contains_error(body: &Value) -> bool {
    let is_error = |value: Value| {
        let found = ServerError::from_json(&serde_json::json!({"field": value}));
        found.is_some_and(|error| error.has_message())
    };
    let Some(fields) = body.as_object() else { return false };
    let (inner, own): (Map<_, _>, Map<_, _>) =
        fields.clone().into_iter().partition(|(_, field)| field.is_object() || field.is_array());
    let has_error_key = own.keys().any(|key| key.to_ascii_lowercase().contains("error"));
    (has_error_key && is_error(own.into())) || inner.into_iter().any(|(_, field)| is_error(field))
}

/// Returns `text` without surrounding whitespace. If it is longer than 1,000 bytes, it is
/// truncated and ends with an ellipsis.
pub fn excerpt(text: &str) -> String {
    truncate_with_ellipsis(text.trim(), EXCERPT_BYTES).into_owned()
}

/// Returns the error for `body`, which could not be parsed: [`ModelError::Truncated`] if the JSON
/// ends early, or else [`ModelError::InvalidResponse`].
pub fn decode_error(error: &serde_json::Error, body: &[u8]) -> ModelError {
    if error.is_eof() {
        return ModelError::Truncated { reason: error.to_string(), partial: Box::default() };
    }
    let body = excerpt(&String::from_utf8_lossy(body));
    ModelError::InvalidResponse(format!("{error}: {body}"))
}
