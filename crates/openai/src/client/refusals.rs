//! What servers refuse of a request that can do without it.

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU16, Ordering};

use haft_core::model::ModelError;

/// A request that was refused.
pub(super) struct Refusal {
    pub(super) error: ModelError,
    /// The parameter that the server names, beside what it says.
    pub(super) parameter: String,
}

/// What may be left out of a request, or said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The wish to be told what a stream cost. Mistral refuses it.
    StreamOptions,
    /// The name of the limit of tokens: `max_tokens` or `max_completion_tokens`.
    TokenLimit,
    /// Some models that think refuse these.
    Stop,
    Seed,
    Temperature,
    TopP,
    ParallelToolCalls,
    /// That a person may speak after a tool without a word of the model between. Models of Mistral refuse it.
    UserAfterTool,
    /// The reasoning in a form that only the server reads. OpenAI refuses it for a model that does not think.
    Encrypted,
}

/// Parts that are left out of a request, or said otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Parts(u16);

impl Parts {
    pub(super) fn has(self, part: Part) -> bool {
        self.0 & part.bit() != 0
    }

    pub(super) fn with(self, part: Part, whether: bool) -> Self {
        if whether { Self(self.0 | part.bit()) } else { self }
    }

    /// These and another one; `None` where it is among them already.
    pub(super) fn and(self, part: Part) -> Option<Self> {
        (!self.has(part)).then(|| self.with(part, true))
    }
}

impl Part {
    fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// What was learned of a server by its refusals.
#[derive(Debug, Default)]
pub(super) struct Learned(AtomicU16);

impl Learned {
    pub(super) fn from(parts: Parts) -> Self {
        Self(AtomicU16::new(parts.0))
    }

    pub(super) fn parts(&self) -> Parts {
        Parts(self.0.load(Ordering::Relaxed))
    }

    /// Remembers what helped: what was left out of the request that was taken, and not of the one before it.
    pub(super) fn add(&self, taken: Parts, before: Parts) {
        self.0.fetch_or(taken.0 & !before.0, Ordering::Relaxed);
    }
}

impl From<ModelError> for Refusal {
    fn from(error: ModelError) -> Self {
        Self { error, parameter: String::new() }
    }
}

impl Refusal {
    /// What the server says, where it is about the request.
    pub(super) fn words(&self) -> Option<&str> {
        match &self.error {
            ModelError::Rejected { status: 400 | 404 | 422, body } => Some(body),
            _ => None,
        }
    }

    /// What to leave out beside what was, of these by their names in the API.
    pub(super) fn beside(&self, left_out: Parts, optional: &[(&str, Part)]) -> Option<Parts> {
        optional.iter().find_map(|(name, part)| left_out.and(*part).filter(|_| self.is_of(name)))
    }

    /// Whether the server does not know a parameter, or not for this model. One whose value is wrong is another matter.
    pub(super) fn is_of(&self, parameter: &str) -> bool {
        const REFUSING: [&str; 9] = [
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
        let Some(words) = self.words().map(str::to_lowercase) else { return false };
        let is_refused = REFUSING.iter().any(|word| words.contains(word));
        // Its words may name others too, such as those that it does support.
        let is_it = match &*self.parameter {
            "" => is_named(&words, parameter),
            path => is_last(path, parameter),
        };
        is_refused && is_it
    }
}

/// Whether a path such as `body.stop` ends in a name.
fn is_last(path: &str, name: &str) -> bool {
    path.rsplit(['.', '/']).next().is_some_and(|last| last == name)
}

/// Whether a text names a parameter, and does not just use its word.
fn is_named(text: &str, name: &str) -> bool {
    // No word of any language.
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

/// Whether a word ends here.
fn is_end(rest: &str) -> bool {
    rest.chars().next().is_none_or(|next| !next.is_alphanumeric() && next != '_')
}
