use haft_core::{message::AssistantMessage, model::FinishReason};

/// Whether and why a reply ended, as far as its server said.
#[derive(Debug, Default)]
pub(super) struct Ending {
    reason: Option<String>,
    is_over: bool,
}

/// What a reason means for the reply before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The model had said all.
    Complete,
    /// A limit of tokens stopped it.
    Limit,
    /// A content filter stopped it.
    Filter,
    /// The server stopped it, or lost it: it is not whole.
    Interrupted,
    /// The server failed.
    Failure,
    /// There is no reason, or one that is not known.
    Unknown,
}

/// The words of servers, however they are written.
const REASONS: &[(&[&str], Kind)] = &[
    // OpenAI's, and those that gateways pass on from Anthropic, Cohere, Hugging Face and Together.
    (&["stop", "tool_calls", "function_call", "tool_call", "tool_use"], Kind::Complete),
    (&["end_turn", "stop_sequence", "eos", "eos_token", "end", "complete", "completed"], Kind::Complete),
    // OpenAI's two APIs, Anthropic, Gemini, Mistral.
    (&["length", "max_output_tokens", "max_tokens", "model_length"], Kind::Limit),
    (&["model_context_window_exceeded", "max_length"], Kind::Limit),
    // OpenAI, Zhipu, Bedrock, Anthropic; then Gemini.
    (&["content_filter", "content_filtered", "sensitive", "guardrail_intervened", "refusal"], Kind::Filter),
    (&["safety", "recitation", "prohibited_content", "blocklist", "spii", "image_safety"], Kind::Filter),
    // DeepSeek, vLLM and SGLang, Zhipu, Gemini.
    (&["insufficient_system_resource", "abort", "aborted", "network_error"], Kind::Interrupted),
    (&["cancelled", "canceled", "timeout", "interrupted", "incomplete"], Kind::Interrupted),
    (&["malformed_function_call", "unexpected_tool_call"], Kind::Interrupted),
    (&["error"], Kind::Failure),
];

impl Kind {
    pub(super) fn of(reason: &str) -> Self {
        let is_of = |(words, _): &&(&[&str], Self)| words.iter().any(|it| it.eq_ignore_ascii_case(reason));
        REASONS.iter().find(is_of).map_or(Self::Unknown, |(_, kind)| *kind)
    }
}

impl Ending {
    /// Takes the reason of a chunk. Some servers send an empty one with each chunk, which ends nothing.
    pub(super) fn take(&mut self, reason: String) {
        let is_filled = !reason.is_empty();
        self.is_over |= is_filled;
        if is_filled || self.reason.is_none() {
            self.reason = Some(reason);
        }
    }

    /// Takes back that the reply is over: more of it came. Some servers end the reasoning with a reason of its own.
    pub(super) fn goes_on(&mut self) {
        self.is_over = false;
    }

    /// Whether nothing more comes, except perhaps for the usage.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    pub(super) fn kind(&self) -> Kind {
        Kind::of(self.reason())
    }

    /// Whether the server says that the model made calls.
    pub(super) fn is_of_calls(&self) -> bool {
        ["tool_calls", "function_call", "tool_call", "tool_use"]
            .iter()
            .any(|it| it.eq_ignore_ascii_case(self.reason()))
    }

    /// What the server said.
    pub(super) fn reason(&self) -> &str {
        self.reason.as_deref().unwrap_or_default()
    }

    /// The reason in haft's words, for the message that it ended.
    pub(super) fn into_reason(self, message: &AssistantMessage) -> FinishReason {
        match (self.kind(), self.reason) {
            (Kind::Limit, _) => FinishReason::Length,
            (Kind::Filter, _) => FinishReason::ContentFilter,
            (Kind::Unknown, Some(reason)) => FinishReason::Other(reason),
            // Half of the servers say `stop` beside calls, and some say nothing.
            _ if message.tool_calls.is_empty() => FinishReason::Stop,
            _ => FinishReason::ToolCalls,
        }
    }
}
