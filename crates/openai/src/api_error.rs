//! Errors in a stream, or in a response with HTTP status 200.

use haft_core::{
    model::{ModelError, ServerError},
    text::truncate_with_ellipsis,
};
use serde_json::Value;

/// The maximum length of an excerpt of a server's message, in bytes, without the ellipsis.
const EXCERPT_BYTES: usize = 1000;

/// Converts `error`, which arrived in a stream or in a response with HTTP status 200, to a
/// [`ModelError`].
pub(crate) fn in_band_error(error: &Value) -> ModelError {
    let parsed = ServerError::from_json(error).unwrap_or_else(|| ServerError::parse(&error.to_string()));
    parsed.into_model_error(None, None)
}

/// Converts `body` to a [`ModelError`] if it contains an error message instead of a reply. Returns
/// `None` for any other body.
pub(crate) fn error_in_place_of_reply(body: &Value) -> Option<ModelError> {
    let error = ServerError::from_json(body).filter(ServerError::has_message)?;
    Some(error.into_model_error(None, None))
}

/// Returns `true` if a field of `body`, at any depth, is an error object. Unknown gateways send
/// `{"data": {"error": …}}` or `{"errors": […]}` in a stream.
pub(crate) fn contains_error(body: &Value) -> bool {
    let fields = body.as_object().into_iter().flat_map(|body| body.values());
    let is_error = |field: &Value| {
        let found = ServerError::from_json(&serde_json::json!({"field": field}));
        found.is_some_and(|error| error.has_message())
    };
    fields.filter(|field| field.is_object() || field.is_array()).any(is_error)
}

/// Returns `text` without surrounding whitespace. If it is longer than [`EXCERPT_BYTES`], it is
/// truncated and ends with an ellipsis.
pub(crate) fn excerpt(text: &str) -> String {
    truncate_with_ellipsis(text.trim(), EXCERPT_BYTES).into_owned()
}
