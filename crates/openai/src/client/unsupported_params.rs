//! Request parameters that some servers reject. They are omitted or replaced in later requests.

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU16, Ordering};

use haft_core::model::ModelError;
use haft_http::model::RequestError;

/// The error of an HTTP request, and the request parameter that the error names.
pub(super) struct ApiRejection {
    pub(super) error: ModelError,
    /// The `param` field of the error body, or an empty string.
    pub(super) param: String,
}

/// A part of a request that some servers reject, usually a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OptionalParam {
    /// `stream_options`. Mistral rejects this parameter.
    StreamOptions,
    /// The name of the token limit: `max_tokens` or `max_completion_tokens`. If the server rejects
    /// one of the two names, the alternative name is used.
    TokenLimitName,
    /// `stop`. Some reasoning models reject `stop` and the parameters in the next four variants.
    Stop,
    Seed,
    Temperature,
    TopP,
    ParallelToolCalls,
    /// A user message directly after a tool result. It is not a parameter, but Mistral rejects it
    /// like an unsupported parameter.
    UserAfterTool,
    /// `prompt_cache_breakpoint` in the messages. Models before GPT-5.6 reject it.
    CacheBreakpoints,
    /// `prompt_cache_key`.
    PromptCacheKey,
    /// `include: ["reasoning.encrypted_content"]`. OpenAI rejects this value for models without
    /// reasoning.
    EncryptedReasoning,
}

/// A set of [`OptionalParam`]s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OptionalParams(u16);

impl OptionalParams {
    pub(super) fn has(self, param: OptionalParam) -> bool {
        self.0 & param.bit() != 0
    }

    /// Returns this set, extended by `param` if `is_included` is `true`.
    pub(super) fn with_if(self, param: OptionalParam, is_included: bool) -> Self {
        if is_included { Self(self.0 | param.bit()) } else { self }
    }

    /// Returns this set, extended by `param`. `None` if the set already contains `param`.
    pub(super) fn with_if_absent(self, param: OptionalParam) -> Option<Self> {
        (!self.has(param)).then(|| self.with_if(param, true))
    }
}

impl OptionalParam {
    fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// The parameters that all requests of a model omit: those that the quirks of the server exclude,
/// and those that the server has rejected so far.
#[derive(Debug, Default)]
pub(super) struct UnsupportedParams(AtomicU16);

impl UnsupportedParams {
    pub(super) fn new(params: OptionalParams) -> Self {
        Self(AtomicU16::new(params.0))
    }

    pub(super) fn get(&self) -> OptionalParams {
        OptionalParams(self.0.load(Ordering::Relaxed))
    }

    /// Adds the parameters that were omitted from the accepted request, but not from the rejected
    /// request. `accepted` and `rejected` are the sets of parameters that these requests omitted.
    pub(super) fn add(&self, accepted: OptionalParams, rejected: OptionalParams) {
        self.0.fetch_or(accepted.0 & !rejected.0, Ordering::Relaxed);
    }
}

impl From<RequestError> for ApiRejection {
    fn from(RequestError { error, param, .. }: RequestError) -> Self {
        Self { error, param }
    }
}

impl From<ModelError> for ApiRejection {
    fn from(error: ModelError) -> Self {
        Self { error, param: String::new() }
    }
}

impl ApiRejection {
    /// Returns the error message if the server rejected the request with status 400, 404 or 422, or
    /// with an error that has no status, in a stream or in a response with status 200. `None` for
    /// any other error.
    pub(super) fn message(&self) -> Option<&str> {
        match &self.error {
            ModelError::Rejected { status: 400 | 404 | 422, body }
            | ModelError::Server { status: None, body, .. } => Some(body),
            _ => None,
        }
    }

    /// Returns `omitted`, extended by the first parameter in `optional` that this error rejects and
    /// that is not omitted yet. `None` if there is no such parameter.
    pub(super) fn add_rejected(
        &self,
        omitted: OptionalParams,
        optional: &[(&str, OptionalParam)],
    ) -> Option<OptionalParams> {
        optional
            .iter()
            .find_map(|(name, param)| omitted.with_if_absent(*param).filter(|_| self.rejects(name)))
    }

    /// Returns `true` if the error message reports `param` as unsupported or unknown. A message
    /// about an invalid value, such as `array too long`, does not count.
    pub(super) fn rejects(&self, param: &str) -> bool {
        const MARKERS: [&str; 9] = [
            "support",
            "unknown",
            "unrecognized",
            "unexpected",
            "not permitted",
            "not allowed",
            "not available",
            "extra_forbidden",
            "extra inputs",
        ];
        let Some(message) = self.message().map(str::to_lowercase) else { return false };
        let is_rejection = MARKERS.iter().any(|marker| message.contains(marker));
        // The message may also list supported parameters, so the field `param` takes precedence.
        let is_about_it = match &*self.param {
            "" => is_named(&message, param),
            path => ends_in_name(path, param),
        };
        is_rejection && is_about_it
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
