//! Request parameters that some servers reject. They are omitted or replaced in later requests.

use std::sync::atomic::{AtomicU16, Ordering};

use haft_http::model::RequestError;

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

    /// Returns this set, extended by the first parameter in `optional` that `error` rejects and that
    /// is not omitted yet. `None` if there is no such parameter.
    pub(super) fn with_rejected(
        self,
        error: &RequestError,
        optional: &[(&str, OptionalParam)],
    ) -> Option<Self> {
        optional.iter().find_map(|(name, param)| self.with_if_absent(*param).filter(|_| error.rejects(name)))
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
