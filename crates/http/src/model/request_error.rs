//! The errors of requests, and the parameters that a server rejects in them.

#[cfg(test)]
mod tests;

use haft_core::model::ModelError;

/// The error of an HTTP request, and the request parameter that the error names.
#[derive(Debug)]
#[non_exhaustive]
pub struct RequestError {
    /// The error.
    pub error: ModelError,
    /// The `param` field of the error body, or an empty string.
    pub param: String,
}

impl From<ModelError> for RequestError {
    fn from(error: ModelError) -> Self {
        Self { error, param: String::new() }
    }
}

impl RequestError {
    /// Returns the error message if the server rejected the request with status 400, 404 or 422, or
    /// with an error that has no status, in a stream or in a response with status 200. `None` for
    /// any other error.
    pub fn rejection(&self) -> Option<&str> {
        match &self.error {
            ModelError::Rejected { status: 400 | 404 | 422, body }
            | ModelError::Server { status: None, body, .. } => Some(body),
            _ => None,
        }
    }

    /// Returns the error message in lower case if the server reports a part of the request as
    /// unsupported or unknown. `None` for any other error, such as one about an invalid value.
    pub fn unsupported(&self) -> Option<String> {
        const MARKERS: [&str; 12] = [
            "support",
            "unknown",
            "unrecognized",
            "unexpected",
            "not permitted",
            "not allowed",
            "not available",
            "unavailable",
            "deprecated",
            "removed",
            "extra_forbidden",
            "extra inputs",
        ];
        let message = self.rejection()?.to_lowercase();
        MARKERS.iter().any(|marker| message.contains(marker)).then_some(message)
    }

    /// Returns `true` if the error message reports `param` as unsupported or unknown. A message
    /// about an invalid value, such as `array too long`, does not count.
    pub fn rejects(&self, param: &str) -> bool {
        let Some(message) = self.unsupported() else { return false };
        // The message may also list supported parameters, so the field `param` takes precedence.
        match &*self.param {
            "" => is_named(&message, param),
            path => ends_in_name(path, param),
        }
    }
}

/// Returns `true` if `name` is the last segment of `path`, for example `stop` in `body.stop`.
fn ends_in_name(path: &str, name: &str) -> bool {
    path.rsplit(['.', '/']).next().is_some_and(|last| last == name)
}

/// Returns `true` if `text` mentions `name` as a parameter. `Please stop.` does not mention `stop`.
fn is_named(text: &str, name: &str) -> bool {
    // A name with an underscore is not an English word, so it needs no quotes.
    if name.contains('_') {
        return text.contains(name);
    }
    let before = [
        "'",
        "\"",
        "`",
        "parameter ",
        "parameters ",
        "argument ",
        "parameter: ",
        "argument: ",
        "model: ",
        "supplied: ",
    ];
    before.iter().any(|before| text.split(&format!("{before}{name}")).skip(1).any(is_word_end))
}

/// Returns `true` if `rest`, the text after a word, does not continue the word.
fn is_word_end(rest: &str) -> bool {
    rest.chars().next().is_none_or(|next| !next.is_alphanumeric() && next != '_')
}
