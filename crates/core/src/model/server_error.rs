//! Errors of model servers, as sent in the body of a response or in a stream.

mod kind;
mod layers;
mod retry_delay;
#[cfg(test)]
mod tests;

use std::time::Duration;

use serde_json::Value;

use self::{
    kind::{contains_any, is_any},
    layers::Layers,
};
use super::ModelError;
use crate::{limits::ARGUMENT_BYTES, text::truncate_with_ellipsis};

/// The maximum length of the message of an error, in bytes, without the ellipsis.
const EXCERPT_BYTES: usize = 1000;

/// The error in the body of a server's response, for adapters of model APIs.
///
/// A gateway can wrap the error of its provider: OpenRouter in `metadata.raw`, LiteLLM in the
/// message, Databricks in `external_model_error`. The message is that of the innermost error, and
/// the codes of all errors determine the variant of [`ModelError`].
///
/// # Examples
///
/// ```
/// use haft_core::model::{ModelError, ServerError};
///
/// let body = r#"{"error": {"message": "Provider returned error", "code": 400, "metadata": {
///     "raw": "{\"error\": {\"message\": \"too many tokens\", \"code\": \"context_length_exceeded\"}}"
/// }}}"#;
/// let error = ServerError::parse(body).into_model_error(Some(400), None);
/// assert!(matches!(error, ModelError::ContextTooLong(message) if message == "too many tokens"));
/// ```
#[derive(Debug, Default)]
pub struct ServerError {
    /// The innermost message, at most [`EXCERPT_BYTES`] bytes.
    message: String,
    /// `false` if `message` is an excerpt of a JSON body without a message.
    has_message: bool,
    /// All messages, in lower case.
    texts: String,
    /// The values of `code`, `type` and similar fields, outermost first.
    codes: Vec<String>,
    param: String,
    /// The text that the model generated and the server rejected.
    generation: Option<String>,
    /// The status of a wrapped error, and whether it is exact: `true` for a number, `false` for a
    /// type such as `invalid_request_error`.
    inner_status: Option<(u16, bool)>,
    /// The status of the outermost error, derived from its fields.
    outer_status: Option<u16>,
    delay: Option<Duration>,
    /// `Some(true)` if the server requests a retry, `Some(false)` if a retry cannot succeed.
    is_retryable: Option<bool>,
}

impl ServerError {
    /// Parses `body`, which can be JSON, HTML or plain text.
    pub fn parse(body: &str) -> Self {
        let parsed = serde_json::from_str(body).ok().and_then(|value: Value| Self::from_json(&value));
        parsed.unwrap_or_else(|| {
            let mut layers = Layers::default();
            layers.add_text(body);
            let mut error = layers.into_error();
            if error.message.is_empty() {
                error.message = excerpt(body);
            }
            error.has_message = true;
            // The page of a proxy can contain any phrase.
            if body.trim_start().starts_with('<') {
                error.texts.clear();
            }
            error
        })
    }

    /// Parses a JSON body in OpenAI's format, `{"error": …}`, or in the format of another server.
    /// Returns `None` if `body` has no message, no code and no type.
    pub fn from_json(body: &Value) -> Option<Self> {
        let mut layers = Layers::default();
        layers.add(body);
        let mut error = layers.into_error();
        if error.message.is_empty() && error.codes.is_empty() && error.generation.is_none() {
            return None;
        }
        error.has_message = !error.message.is_empty();
        if !error.has_message {
            let inner = body.get(0).unwrap_or(body);
            let inner = inner.get("error").filter(|error| !error.is_null()).unwrap_or(inner);
            error.message = excerpt(&inner.to_string());
        }
        Some(error)
    }

    /// The message of the innermost error, at most 1 kB. An excerpt of the body if it has no
    /// message.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns `true` if the body has a message.
    pub fn has_message(&self) -> bool {
        self.has_message
    }

    /// The name of the rejected request parameter (`param`), or an empty string.
    pub fn param(&self) -> &str {
        &self.param
    }

    /// Sets whether a retry can succeed, for example from the header `x-should-retry`. `None` keeps
    /// the statement of the body.
    pub fn set_retryable(&mut self, is_retryable: Option<bool>) {
        self.is_retryable = is_retryable.or(self.is_retryable);
    }

    /// Writes `prefix` before the message.
    pub fn prefix_message(&mut self, prefix: &str) {
        self.message.insert_str(0, prefix);
    }

    /// Converts the error to a [`ModelError`]. `status` is the HTTP status of the response, or
    /// `None` for an error in a stream or in a response with status 200. `retry_after` is the value
    /// of the header `Retry-After`, which takes precedence over a delay in the body.
    ///
    /// The cause determines the variant: a rejected generation, a content filter, an exhausted
    /// quota or a conversation that is too long, each with any status. The status determines the
    /// variant of any other error.
    pub fn into_model_error(self, status: Option<u16>, retry_after: Option<Duration>) -> ModelError {
        let status = self.effective_status(status);
        let retry_after = retry_after.or(self.delay);
        // A message about a key or a rate limit can mention anything.
        let is_limited = matches!(status, Some(401 | 403 | 429));
        if self.is_invalid_generation(is_limited) {
            return ModelError::InvalidGeneration { reason: self.message, generation: self.generation };
        }
        if self.is_content_filter(matches!(status, Some(401 | 429))) {
            return ModelError::ContentFiltered(self.message);
        }
        if self.is_about_quota() || status == Some(402) {
            return ModelError::RateLimited { message: self.message, retry_after, permanent: true };
        }
        match status {
            Some(status) => self.into_error_by_status(status, retry_after),
            None if self.is_context_too_long() => ModelError::ContextTooLong(self.message),
            None => ModelError::Server { status: None, body: self.message, retry_after },
        }
    }

    /// Returns the status of the cause. The status of a wrapped error takes precedence over the
    /// status of the gateway.
    fn effective_status(&self, status: Option<u16>) -> Option<u16> {
        match (status, self.inner_status) {
            (Some(outer), Some((inner, is_exact))) if is_exact || outer >= 500 => Some(inner),
            (Some(outer), _) => Some(outer),
            (None, Some((inner, _))) => Some(inner),
            (None, None) => self.outer_status,
        }
    }

    fn into_error_by_status(self, status: u16, retry_after: Option<Duration>) -> ModelError {
        let is_permanent = self.is_retryable == Some(false);
        match status {
            401 | 403 => ModelError::Unauthorized(self.message),
            400 if self.is_about_key() => ModelError::Unauthorized(self.message),
            429 if self.exceeds_rate_limit() => ModelError::ContextTooLong(self.message),
            429 => ModelError::RateLimited { message: self.message, retry_after, permanent: is_permanent },
            400 | 413 | 422 if self.is_context_too_long() => ModelError::ContextTooLong(self.message),
            _ if is_permanent && !self.is_context_too_long() => {
                ModelError::Rejected { status, body: self.message }
            }
            // These errors are transient: 408 Request Timeout, 409 Conflict, 425 Too Early (RFC
            // 8470), and Groq's 498 (no capacity).
            408 | 409 | 425 | 498 => {
                ModelError::Server { status: Some(status), body: self.message, retry_after }
            }
            300..=499 if self.is_retryable == Some(true) => {
                ModelError::Server { status: Some(status), body: self.message, retry_after }
            }
            // 501 Not Implemented and 505 HTTP Version Not Supported are permanent, unlike the
            // other 5xx statuses.
            300..=499 | 501 | 505 => ModelError::Rejected { status, body: self.message },
            _ if self.is_context_too_long() => ModelError::ContextTooLong(self.message),
            _ => ModelError::Server { status: Some(status), body: self.message, retry_after },
        }
    }

    fn has_code(&self, codes: &[&str]) -> bool {
        self.codes.iter().any(|code| is_any(code, codes))
    }

    fn is_invalid_generation(&self, is_limited: bool) -> bool {
        self.generation.is_some()
            || self.has_code(kind::GENERATION_CODES)
            || (!is_limited && contains_any(&self.texts, kind::GENERATION_TEXTS))
    }

    fn is_content_filter(&self, is_limited: bool) -> bool {
        let is_stated =
            || self.has_code(kind::FILTER_NUMBERS) || contains_any(&self.texts, kind::FILTER_TEXTS);
        self.has_code(kind::FILTER_CODES) || (!is_limited && is_stated())
    }

    fn is_about_quota(&self) -> bool {
        self.has_code(kind::QUOTA_CODES) || contains_any(&self.texts, kind::QUOTA_TEXTS)
    }

    fn is_about_key(&self) -> bool {
        self.has_code(kind::KEY_CODES) || contains_any(&self.texts, kind::KEY_TEXTS)
    }

    /// Returns `true` if the rejected request alone exceeds the token limit per minute. A retry
    /// cannot succeed, because waiting does not make the request smaller.
    fn exceeds_rate_limit(&self) -> bool {
        self.has_code(kind::CONTEXT_CODES)
            || self.texts.lines().any(|text| text.starts_with("request too large"))
    }

    /// Returns `true` if the request exceeds the context length of the model. OpenAI and llama.cpp
    /// send a specific `code` or `type` in this case. Most other servers only describe the problem
    /// in the message.
    fn is_context_too_long(&self) -> bool {
        self.has_code(kind::CONTEXT_CODES) || contains_any(&self.texts, kind::CONTEXT_TEXTS)
    }
}

impl Layers {
    fn into_error(self) -> ServerError {
        let message = self.messages.last().map(|message| excerpt(message)).unwrap_or_default();
        let texts = self.messages.join("\n").to_lowercase();
        let generation =
            self.generation.or_else(|| self.messages.iter().find_map(|it| kind::quoted_generation(it)));
        ServerError {
            message,
            has_message: false,
            texts,
            codes: self.codes,
            param: self.param,
            generation: generation.filter(|text| text.len() <= ARGUMENT_BYTES),
            inner_status: self.inner_status,
            outer_status: self.outer_status,
            delay: self.delay,
            is_retryable: self.has_daily_quota.then_some(false),
        }
    }
}

/// Returns `text` without surrounding whitespace. If it is longer than 1,000 bytes, it is truncated
/// and ends with an ellipsis.
fn excerpt(text: &str) -> String {
    truncate_with_ellipsis(text.trim(), EXCERPT_BYTES).into_owned()
}
