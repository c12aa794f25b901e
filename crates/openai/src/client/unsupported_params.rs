//! Request parameters rejected by a server. They are omitted or replaced in later requests.

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU16, Ordering};

use haft_core::model::ModelError;

/// A failed request, with the parameter named in the error response.
pub(super) struct ApiRejection {
    pub(super) error: ModelError,
    /// The `param` field of the error body, else empty.
    pub(super) param: String,
}

/// A request parameter without support on some servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OptionalParam {
    /// `stream_options`; rejected by Mistral.
    StreamOptions,
    /// The name of the token limit: `max_tokens` or `max_completion_tokens`.
    TokenLimit,
    /// `stop`; rejected by some reasoning models, as are the next four.
    Stop,
    Seed,
    Temperature,
    TopP,
    ParallelToolCalls,
    /// A user message directly after a tool result; rejected by Mistral.
    UserAfterTool,
    /// `include: ["reasoning.encrypted_content"]`; rejected by OpenAI for models without reasoning.
    Encrypted,
}

/// A set of [`OptionalParam`]s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OptionalParams(u16);

impl OptionalParams {
    pub(super) fn has(self, param: OptionalParam) -> bool {
        self.0 & param.bit() != 0
    }

    /// Adds a parameter if `is_included` is set.
    pub(super) fn with(self, param: OptionalParam, is_included: bool) -> Self {
        if is_included { Self(self.0 | param.bit()) } else { self }
    }

    /// Adds a parameter. `None` if the set has it already.
    pub(super) fn and(self, param: OptionalParam) -> Option<Self> {
        (!self.has(param)).then(|| self.with(param, true))
    }
}

impl OptionalParam {
    fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// The parameters rejected by a server so far, shared by all requests to it.
#[derive(Debug, Default)]
pub(super) struct UnsupportedParams(AtomicU16);

impl UnsupportedParams {
    pub(super) fn new(params: OptionalParams) -> Self {
        Self(AtomicU16::new(params.0))
    }

    pub(super) fn get(&self) -> OptionalParams {
        OptionalParams(self.0.load(Ordering::Relaxed))
    }

    /// Adds the parameters omitted from the accepted request but not from the rejected one.
    pub(super) fn add(&self, accepted: OptionalParams, rejected: OptionalParams) {
        self.0.fetch_or(accepted.0 & !rejected.0, Ordering::Relaxed);
    }
}

impl From<ModelError> for ApiRejection {
    fn from(error: ModelError) -> Self {
        Self { error, param: String::new() }
    }
}

impl ApiRejection {
    /// The message of a 400, 404 or 422 response.
    pub(super) fn message(&self) -> Option<&str> {
        match &self.error {
            ModelError::Rejected { status: 400 | 404 | 422, body } => Some(body),
            _ => None,
        }
    }

    /// Adds the first rejected parameter that is not omitted yet.
    pub(super) fn added_to(
        &self,
        omitted: OptionalParams,
        optional: &[(&str, OptionalParam)],
    ) -> Option<OptionalParams> {
        optional.iter().find_map(|(name, param)| omitted.and(*param).filter(|_| self.rejects(name)))
    }

    /// Returns `true` if the server does not support a parameter. A rejected value does not count.
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
        // The message may also list the supported parameters, so `param` takes precedence.
        let is_about_it = match &*self.param {
            "" => is_named(&message, param),
            path => is_last(path, param),
        };
        is_rejection && is_about_it
    }
}

/// Returns `true` if a path such as `body.stop` ends in a name.
fn is_last(path: &str, name: &str) -> bool {
    path.rsplit(['.', '/']).next().is_some_and(|last| last == name)
}

/// Returns `true` if a text names a parameter. `Please stop.` does not name `stop`.
fn is_named(text: &str, name: &str) -> bool {
    // Not an English word.
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
    before.iter().any(|before| text.split(&format!("{before}{name}")).skip(1).any(is_end))
}

/// Returns `true` at the end of a word.
fn is_end(rest: &str) -> bool {
    rest.chars().next().is_none_or(|next| !next.is_alphanumeric() && next != '_')
}
