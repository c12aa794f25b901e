//! Conversion of error responses into a [`ModelError`].

mod retry_delay;
#[cfg(all(test, feature = "client"))]
mod tests;

use std::time::Duration;

use haft_core::{model::ModelError, text::truncate_with_ellipsis};
use serde_json::Value;

#[cfg(feature = "client")]
pub(crate) use retry_delay::duration_from_secs;

/// The maximum length of an excerpt of a server's message, in bytes, without the ellipsis.
const EXCERPT_BYTES: usize = 1000;

/// The error object in a server's response.
#[derive(Debug, Default)]
pub(crate) struct ApiError {
    message: String,
    /// The `code` field of the error, or an empty string.
    code: String,
    /// The `type` field of the error, or an empty string.
    kind: String,
    /// The `param` field (the name of the rejected request parameter), or an empty string.
    #[cfg_attr(not(feature = "client"), expect(dead_code, reason = "only read by the feature `client`"))]
    param: String,
    /// The retry delay in the error body. `None` if the body contains no delay.
    delay: Option<Duration>,
    /// The server's statement about retries: `Some(true)` if a retry can succeed, `Some(false)` if
    /// it cannot. `None` if the response contains no statement.
    is_retryable: Option<bool>,
}

impl ApiError {
    /// Parses the body of an error response. `body` may be JSON, HTML or plain text.
    #[cfg(feature = "client")]
    pub(crate) fn of_body(body: &str) -> Self {
        let parsed = serde_json::from_str(body).ok().and_then(|value| Self::of_value(&value));
        parsed.unwrap_or_else(|| {
            let delay = retry_delay::retry_delay(&Value::Null, body);
            Self { message: excerpt(body), delay, ..Self::default() }
        })
    }

    /// Parses an error body in OpenAI's format, `{"error": …}`, or in the format of another server.
    /// Returns `None` if `body` has no message, no code and no type.
    fn of_value(body: &Value) -> Option<Self> {
        // Gemini wraps the error in a list with one element.
        let body = body.get(0).unwrap_or(body);
        // Cloudflare sends a list `errors`, and MiniMax sends an object `base_resp`.
        let places = ["/error", "/errors/0", "/base_resp"];
        let error = places.iter().find_map(|place| body.pointer(place).filter(|error| !error.is_null()));
        let error = error.unwrap_or(body);
        let message = match error {
            Value::String(message) => Some(message.as_str()),
            _ => ["message", "detail", "status_msg"].iter().find_map(|key| error.get(*key)?.as_str()),
        };
        let field = |key| string_or_number(error, key).or_else(|| string_or_number(body, key));
        let (code, kind) = (field("code").or_else(|| field("status_code")), field("type"));
        if message.is_none() && code.is_none() && kind.is_none() {
            return None;
        }
        let delay = retry_delay::retry_delay(error, message.unwrap_or_default());
        let message = message.map_or_else(|| excerpt(&error.to_string()), excerpt);
        Some(Self {
            message,
            delay,
            is_retryable: retry_delay::is_daily_quota(error).then_some(false),
            code: code.unwrap_or_default(),
            kind: kind.unwrap_or_default(),
            param: field("param").unwrap_or_default(),
        })
    }

    /// Removes and returns the `param` field of the error.
    #[cfg(feature = "client")]
    pub(crate) fn take_param(&mut self) -> String {
        std::mem::take(&mut self.param)
    }

    /// Stores `is_retryable`, the value of the `x-should-retry` header. The header overrides a
    /// statement about retries in the body. `None` (no header) has no effect.
    #[cfg(feature = "client")]
    pub(crate) fn set_retryable(&mut self, is_retryable: Option<bool>) {
        self.is_retryable = is_retryable.or(self.is_retryable);
    }

    /// Adds the requested URL to the message of a 404 error, because the usual cause is a wrong
    /// base URL.
    #[cfg(feature = "client")]
    pub(crate) fn add_url(&mut self, url: &str) {
        let is_usual = ["/v1/chat/completions", "/v1/responses"].iter().any(|path| url.ends_with(path));
        let question = if is_usual { "" } else { " (should the base URL end in /v1?)" };
        self.message = format!("at {url}{question}: {}", self.message);
    }

    /// Converts `error`, which arrived in a stream or in a response with HTTP status 200, to a
    /// [`ModelError`].
    pub(crate) fn in_band(error: &Value) -> ModelError {
        let parsed = Self::of_value(error);
        parsed
            .unwrap_or_else(|| Self { message: excerpt(&error.to_string()), ..Self::default() })
            .without_status()
    }

    /// Converts `body` to a [`ModelError`] if it contains an error message instead of a reply.
    /// Returns `None` for any other body.
    pub(crate) fn in_place_of_reply(body: &Value) -> Option<ModelError> {
        // Without a `message` in the body, `of_value` uses an excerpt of the JSON, which begins
        // with `{`.
        let has_message = |error: &Self| !error.message.is_empty() && !error.message.starts_with('{');
        Self::of_value(body).filter(has_message).map(Self::without_status)
    }

    /// Converts this error to a [`ModelError`] if it has no HTTP status, for example because it
    /// arrived in a stream. If possible, the status is derived from the `code` or `type` of the
    /// error.
    pub(crate) fn without_status(self) -> ModelError {
        match self.status() {
            Some(status) => self.into_error(status, None),
            None if self.is_context_too_long() => ModelError::ContextTooLong(self.message),
            None => ModelError::Server { status: None, body: self.message, retry_after: self.delay },
        }
    }

    /// Derives the HTTP status from the `code` or `type` field. `None` if neither implies a status.
    fn status(&self) -> Option<u16> {
        let number = self.code.parse().ok().filter(|status| (400..600).contains(status));
        number.or_else(|| status_of_code(&self.code)).or_else(|| status_of_code(&self.kind))
    }

    /// Converts this error, from a response with the HTTP status `status`, to a [`ModelError`]. The
    /// status determines the variant of the error. If a status has several possible variants, the
    /// error body and the `x-should-retry` header decide. `retry_after`, the value of the
    /// `Retry-After` header, takes precedence over a delay in the body.
    pub(crate) fn into_error(self, status: u16, retry_after: Option<Duration>) -> ModelError {
        let is_permanent = self.is_retryable == Some(false);
        let retry_after = retry_after.or(self.delay);
        match status {
            401 | 403 => ModelError::Unauthorized(self.message),
            429 if self.exceeds_rate_limit() => ModelError::ContextTooLong(self.message),
            429 => {
                let permanent = is_permanent || self.is_about_quota();
                ModelError::RateLimited { message: self.message, retry_after, permanent }
            }
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

    fn is_about_quota(&self) -> bool {
        const WORDS: [&str; 4] = [
            "insufficient_quota",
            "exceeded_current_quota_error",
            "billing_hard_limit_reached",
            "billing_not_active",
        ];
        WORDS.contains(&self.code.as_str()) || WORDS.contains(&self.kind.as_str())
    }

    /// Returns `true` if the rejected request alone exceeds the token limit per minute. A retry
    /// cannot succeed, because waiting does not make the request smaller.
    fn exceeds_rate_limit(&self) -> bool {
        self.message.starts_with("Request too large")
    }

    /// Returns `true` if the request exceeds the context length of the model. OpenAI and llama.cpp
    /// send a specific `code` or `type` in this case. Most other servers only describe the problem
    /// in the message.
    fn is_context_too_long(&self) -> bool {
        const WORDS: [&str; 5] = [
            "context_length_exceeded",
            "exceed_context_size_error",
            "tokens_limit_reached",
            "model_max_prompt_tokens_exceeded",
            "request_too_large",
        ];
        const SENTENCES: [&str; 27] = [
            "maximum context length",
            "model's context length",
            "context length is only",
            "context length of only",
            "greater than the context length",
            "exceeded max context length",
            "exceed context limit",
            "context window",
            "context size",
            "prompt is too long",
            "prompt too long",
            "prompt exceeds max length",
            "input is too long",
            "too many input tokens",
            "reduce the length of the",
            "exceeds the maximum number of tokens",
            "exceeded model token limit",
            "prompt token count",
            "maximum model length",
            "maximum prompt length",
            "range of input length should be",
            "`inputs` must have less than",
            "`inputs` tokens + `max_new_tokens`",
            // Servers send the next three phrases if a single request exceeds the token limit per
            // minute.
            "request too large for model",
            "the input or output tokens must be reduced",
            "please reduce your message size",
            "number of tokens in the prompt exceeds",
        ];
        let message = self.message.to_lowercase();
        WORDS.contains(&self.code.as_str())
            || WORDS.contains(&self.kind.as_str())
            || SENTENCES.iter().any(|sentence| message.contains(sentence))
    }
}

/// Returns the HTTP status that corresponds to `word`, an error `code` or `type` of OpenAI or
/// another server. `None` for an unknown word.
fn status_of_code(word: &str) -> Option<u16> {
    match word {
        "invalid_request_error" | "invalid_prompt" | "image_too_large" | "invalid_base64_image" => Some(400),
        "invalid_api_key" | "authentication_error" => Some(401),
        "permission_error" => Some(403),
        "model_not_found" => Some(404),
        "insufficient_quota"
        | "exceeded_current_quota_error"
        | "rate_limit_exceeded"
        | "rate_limit_error" => Some(429),
        _ => None,
    }
}

/// Returns the field `key` of `error` as text. `None` if the field is neither a non-empty string
/// nor a number.
fn string_or_number(error: &Value, key: &str) -> Option<String> {
    match error.get(key)? {
        Value::String(word) => Some(word.clone()).filter(|word| !word.is_empty()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Returns `text` without surrounding whitespace. If it is longer than [`EXCERPT_BYTES`], it is
/// truncated and ends with an ellipsis.
pub(crate) fn excerpt(text: &str) -> String {
    truncate_with_ellipsis(text.trim(), EXCERPT_BYTES).into_owned()
}
