//! What servers say in place of a reply, as a [`ModelError`].

mod delay;
#[cfg(all(test, feature = "client"))]
mod tests;

use std::time::Duration;

use haft_core::model::ModelError;
use serde_json::Value;

#[cfg(feature = "client")]
pub(crate) use delay::seconds_of;

/// How much of what a server says goes into an error, in bytes: with the mark of the cut at most 1 kB.
const EXCERPT: usize = 1000;

/// What a server says went wrong.
#[derive(Debug, Default)]
pub(crate) struct Complaint {
    message: String,
    /// Its `code` and `type`: the two words that programs may rely on, where a server has them.
    code: String,
    kind: String,
    /// The parameter that it is about, where the server names one.
    #[cfg_attr(not(feature = "client"), expect(dead_code, reason = "it is for who can ask without it"))]
    parameter: String,
    /// How long the server wants us to wait, as far as the body says.
    delay: Option<Duration>,
    /// Whether the server says that the same request may succeed at once or later, or that it never will.
    will_pass: Option<bool>,
}

impl Complaint {
    /// Reads the body of a reply whose status says that it failed, whatever it is made of.
    #[cfg(feature = "client")]
    pub(crate) fn of_body(body: &str) -> Self {
        let said = serde_json::from_str(body).ok().and_then(|value| Self::of_value(&value));
        said.unwrap_or_else(|| {
            let delay = delay::asked(&Value::Null, body);
            Self { message: excerpt(body), delay, ..Self::default() }
        })
    }

    /// Reads `{"error": …}` and the like; `None` for JSON that says nothing.
    fn of_value(body: &Value) -> Option<Self> {
        // Gemini puts it into a list of one.
        let body = body.get(0).unwrap_or(body);
        // Cloudflare has a list of them, MiniMax a name of its own.
        let places = ["/error", "/errors/0", "/base_resp"];
        let error = places.iter().find_map(|place| body.pointer(place).filter(|error| !error.is_null()));
        let error = error.unwrap_or(body);
        let message = match error {
            Value::String(message) => Some(message.as_str()),
            _ => ["message", "detail", "status_msg"].iter().find_map(|key| error.get(*key)?.as_str()),
        };
        let word = |key| word(error, key).or_else(|| word(body, key));
        let (code, kind) = (word("code").or_else(|| word("status_code")), word("type"));
        if message.is_none() && code.is_none() && kind.is_none() {
            return None;
        }
        let delay = delay::asked(error, message.unwrap_or_default());
        let message = message.map_or_else(|| excerpt(&error.to_string()), excerpt);
        Some(Self {
            message,
            delay,
            will_pass: delay::is_daily(error).then_some(false),
            code: code.unwrap_or_default(),
            kind: kind.unwrap_or_default(),
            parameter: word("param").unwrap_or_default(),
        })
    }

    /// The parameter that it is about, where the server names one.
    #[cfg(feature = "client")]
    pub(crate) fn take_parameter(&mut self) -> String {
        std::mem::take(&mut self.parameter)
    }

    /// Takes the server's word for whether to try again.
    #[cfg(feature = "client")]
    pub(crate) fn will_pass(&mut self, whether: Option<bool>) {
        self.will_pass = whether.or(self.will_pass);
    }

    /// Names the address where nothing was found, in case that it is not the one that was meant.
    #[cfg(feature = "client")]
    pub(crate) fn ask_about(&mut self, url: &str) {
        let is_usual = ["/v1/chat/completions", "/v1/responses"].iter().any(|path| url.ends_with(path));
        let question = if is_usual { "" } else { " (should the base URL end in /v1?)" };
        self.message = format!("at {url}{question}: {}", self.message);
    }

    /// Reads the value of an `error` that stands where a reply should be.
    pub(crate) fn in_band(error: &Value) -> ModelError {
        let said = Self::of_value(error);
        said.unwrap_or_else(|| Self { message: excerpt(&error.to_string()), ..Self::default() })
            .without_status()
    }

    /// Reads what a server says in place of a reply, if it says what went wrong.
    pub(crate) fn in_place_of_reply(body: &Value) -> Option<ModelError> {
        // Its JSON stands for what it does not say.
        let is_said = |said: &Self| !said.message.is_empty() && !said.message.starts_with('{');
        Self::of_value(body).filter(is_said).map(Self::without_status)
    }

    /// The error of a complaint that came without a status of its own.
    pub(crate) fn without_status(self) -> ModelError {
        match self.status() {
            Some(status) => self.into_error(status, None),
            None if self.is_about_length() => ModelError::ContextTooLong(self.message),
            None => ModelError::Server { status: None, body: self.message, retry_after: self.delay },
        }
    }

    /// The status that would have come with it: its code says it, or stands for one.
    fn status(&self) -> Option<u16> {
        let number = self.code.parse().ok().filter(|status| (400..600).contains(status));
        number.or_else(|| status_of(&self.code)).or_else(|| status_of(&self.kind))
    }

    /// The error that a status means. The status decides: what the body says only tells variants of one status apart.
    /// A wait that a header asks for counts more than the one that the body does.
    pub(crate) fn into_error(self, status: u16, retry_after: Option<Duration>) -> ModelError {
        let never = self.will_pass == Some(false);
        let retry_after = retry_after.or(self.delay);
        match status {
            401 | 403 => ModelError::Unauthorized(self.message),
            429 if self.is_larger_than_its_limit() => ModelError::ContextTooLong(self.message),
            429 => {
                let permanent = never || self.is_about_quota();
                ModelError::RateLimited { message: self.message, retry_after, permanent }
            }
            400 | 413 | 422 if self.is_about_length() => ModelError::ContextTooLong(self.message),
            _ if never && !self.is_about_length() => ModelError::Rejected { status, body: self.message },
            // The server gave up waiting, met another request, came too early (RFC 8470), or had no room (Groq): the same request
            // may succeed.
            408 | 409 | 425 | 498 => {
                ModelError::Server { status: Some(status), body: self.message, retry_after }
            }
            300..=499 if self.will_pass == Some(true) => {
                ModelError::Server { status: Some(status), body: self.message, retry_after }
            }
            // What a server does not know today it will not know in a second.
            300..=499 | 501 | 505 => ModelError::Rejected { status, body: self.message },
            _ if self.is_about_length() => ModelError::ContextTooLong(self.message),
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

    /// Whether one request has more tokens than a minute may have: no wait makes it smaller.
    fn is_larger_than_its_limit(&self) -> bool {
        self.message.starts_with("Request too large")
    }

    /// OpenAI and llama.cpp have words for it, the others sentences.
    fn is_about_length(&self) -> bool {
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
            // More at once than a minute may have: waiting cannot help.
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

/// The status that OpenAI sends with a code or type.
fn status_of(word: &str) -> Option<u16> {
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

/// The text or number of a field, if there is any.
fn word(error: &Value, key: &str) -> Option<String> {
    match error.get(key)? {
        Value::String(word) => Some(word.clone()).filter(|word| !word.is_empty()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// The beginning of a text, of at most 1 kB.
pub(crate) fn excerpt(text: &str) -> String {
    let text = text.trim();
    if text.len() <= EXCERPT {
        return text.to_owned();
    }
    let end = (0..=EXCERPT).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    format!("{}…", text.get(..end).unwrap_or_default())
}
