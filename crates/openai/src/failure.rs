//! What servers say in place of a reply, as a [`ModelError`].

#[cfg(all(test, feature = "client"))]
mod tests;

use std::time::Duration;

use haft_core::{ModelError, Value};

/// How much of what a server says goes into an error, in bytes: with the mark of the cut at most 1 kB.
const EXCERPT: usize = 1000;

/// What a server says went wrong.
#[derive(Debug, Default)]
pub(crate) struct Complaint {
    message: String,
    /// Its `code` and `type`: the two words that programs may rely on, where a server has them.
    code: String,
    kind: String,
}

impl Complaint {
    /// Reads the body of a reply whose status says that it failed, whatever it is made of.
    #[cfg(feature = "client")]
    pub(crate) fn of_body(body: &str) -> Self {
        serde_json::from_str(body)
            .ok()
            .and_then(|value| Self::of_value(&value))
            .unwrap_or_else(|| Self { message: excerpt(body), ..Self::default() })
    }

    /// Reads `{"error": …}` and the like; `None` for JSON that says nothing.
    fn of_value(body: &Value) -> Option<Self> {
        let error = body.get("error").unwrap_or(body);
        let message = match error {
            Value::String(message) => message,
            _ => ["message", "detail"].iter().find_map(|key| error.get(*key)?.as_str())?,
        };
        Some(Self { message: excerpt(message), code: word(error, "code"), kind: word(error, "type") })
    }

    /// Reads the value of an `error` that stands where a reply should be.
    pub(crate) fn in_band(error: &Value) -> ModelError {
        let complaint = Self::of_value(error)
            .unwrap_or_else(|| Self { message: excerpt(&error.to_string()), ..Self::default() });
        match complaint.code.parse() {
            Ok(status) if (400..600).contains(&status) => complaint.into_error(status, None),
            _ if complaint.is_about_length() => ModelError::ContextTooLong(complaint.message),
            _ => ModelError::Server { status: None, body: complaint.message, retry_after: None },
        }
    }

    /// The error that a status means. The status decides: what the body says only tells variants of one status apart.
    pub(crate) fn into_error(self, status: u16, retry_after: Option<Duration>) -> ModelError {
        match status {
            401 | 403 => ModelError::Unauthorized(self.message),
            429 => {
                let permanent = self.is_about_quota();
                ModelError::RateLimited { message: self.message, retry_after, permanent }
            }
            400 | 413 | 422 if self.is_about_length() => ModelError::ContextTooLong(self.message),
            // The server gave up waiting, or met another request: the same request may succeed.
            408 | 409 => ModelError::Server { status: Some(status), body: self.message, retry_after },
            300..500 => ModelError::Rejected { status, body: self.message },
            _ if self.is_about_length() => ModelError::ContextTooLong(self.message),
            _ => ModelError::Server { status: Some(status), body: self.message, retry_after },
        }
    }

    fn is_about_quota(&self) -> bool {
        self.code == "insufficient_quota" || self.kind == "insufficient_quota"
    }

    /// OpenAI and llama.cpp have words for it, the others sentences.
    fn is_about_length(&self) -> bool {
        const WORDS: [&str; 2] = ["context_length_exceeded", "exceed_context_size_error"];
        const SENTENCES: [&str; 3] = ["maximum context length", "context window", "context size"];
        let message = self.message.to_lowercase();
        WORDS.contains(&self.code.as_str())
            || WORDS.contains(&self.kind.as_str())
            || SENTENCES.iter().any(|sentence| message.contains(sentence))
    }
}

/// The text or number of a field.
fn word(error: &Value, key: &str) -> String {
    match error.get(key) {
        Some(Value::String(word)) => word.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => String::new(),
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
