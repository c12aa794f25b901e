//! The dialect for servers whose support of native calls is unknown.

use haft_core::{
    Schema,
    model::{ChatRequest, ChatResponse, ModelProfile},
};

use crate::{Dialect, JsonReact, NativeCalls, Prompt, Reply, StreamParser};

/// A dialect for models and servers whose support of native calls is unknown, such as small models
/// on llama.cpp, Ollama or LM Studio.
///
/// A run starts with [`NativeCalls`]. It moves to [`JsonReact`], whose replies are constrained to a
/// schema, in these cases:
///
/// - The model writes a call [as text](NativeCalls). This call is still executed.
/// - The server rejects the request because it does not support tools, for example Ollama for some
///   models, and llama.cpp without `--jinja`.
///
/// The move is part of the saved state of the run. It ends with a hand-off, because the next agent
/// can have another model. A new run starts with [`NativeCalls`] again.
/// A tool named [`FINISH`](crate::FINISH) is withheld after the move.
///
/// # Examples
///
/// ```
/// use haft_core::model::ModelProfile;
/// use haft_dialect::{AutoDialect, Dialect};
///
/// assert_eq!(AutoDialect::new().fallback().map(|dialect| dialect.name()), Some("json"));
///
/// let profile = ModelProfile { supports_native_tools: false, ..ModelProfile::new("tiny") };
/// assert!(AutoDialect::for_profile(&profile).fallback().is_none());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct AutoDialect {
    is_native: bool,
    fallback: JsonReact,
}

/// The default is [`AutoDialect::new`].
impl Default for AutoDialect {
    fn default() -> Self {
        Self::new()
    }
}

impl AutoDialect {
    /// Creates a dialect for a model that may support tools, and supports JSON schemas.
    pub fn new() -> Self {
        Self { is_native: true, fallback: JsonReact::new() }
    }

    /// Creates a dialect for a model with this `profile`. If the model does not support tools, runs
    /// start with [`JsonReact`]. If it does not support JSON schemas, replies in [`JsonReact`] are
    /// not constrained.
    pub fn for_profile(profile: &ModelProfile) -> Self {
        let fallback =
            if profile.supports_json_schema { JsonReact::new() } else { JsonReact::unconstrained() };
        Self { is_native: profile.supports_native_tools, fallback }
    }

    fn first(&self) -> &dyn Dialect {
        if self.is_native { &NativeCalls } else { &self.fallback }
    }
}

impl Dialect for AutoDialect {
    fn name(&self) -> &'static str {
        "auto"
    }

    fn build_request(&self, prompt: &Prompt<'_>) -> ChatRequest {
        self.first().build_request(prompt)
    }

    fn parse_reply(&self, response: ChatResponse, outputs: Option<&Schema>) -> Reply {
        self.first().parse_reply(response, outputs)
    }

    fn stream_parser(&self, outputs: Option<&Schema>) -> Box<dyn StreamParser> {
        self.first().stream_parser(outputs)
    }

    fn reserved_name(&self, outputs: Option<&Schema>) -> Option<&'static str> {
        self.first().reserved_name(outputs)
    }

    fn reads_written_calls(&self) -> bool {
        self.first().reads_written_calls()
    }

    fn fallback(&self) -> Option<&dyn Dialect> {
        if self.is_native { Some(&self.fallback) } else { None }
    }
}
