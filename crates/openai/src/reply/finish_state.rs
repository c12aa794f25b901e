use haft_core::{message::AssistantMessage, model::FinishReason};

/// The finish reason of a reply.
#[derive(Debug, Default)]
pub(super) struct FinishState {
    reason: Option<String>,
    is_over: bool,
}

/// The meaning of a finish reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FinishKind {
    /// The model was done.
    Complete,
    /// A limit of tokens stopped it.
    Limit,
    /// A content filter stopped it.
    Filter,
    /// The server interrupted the reply.
    Interrupted,
    /// The server failed.
    Failure,
    /// A missing or unknown reason.
    Unknown,
}

/// Known reasons, in any case.
const REASONS: &[(&[&str], FinishKind)] = &[
    // OpenAI; then Anthropic, Cohere, Hugging Face and Together through gateways.
    (&["stop", "tool_calls", "function_call", "tool_call", "tool_use"], FinishKind::Complete),
    (
        &["end_turn", "stop_sequence", "eos", "eos_token", "end", "complete", "completed"],
        FinishKind::Complete,
    ),
    // OpenAI's two APIs, Anthropic, Gemini, Mistral.
    (&["length", "max_output_tokens", "max_tokens", "model_length"], FinishKind::Limit),
    (&["model_context_window_exceeded", "max_length"], FinishKind::Limit),
    // OpenAI, Zhipu, Bedrock, Anthropic; then Gemini.
    (
        &["content_filter", "content_filtered", "sensitive", "guardrail_intervened", "refusal"],
        FinishKind::Filter,
    ),
    (
        &["safety", "recitation", "prohibited_content", "blocklist", "spii", "image_safety"],
        FinishKind::Filter,
    ),
    // DeepSeek, vLLM and SGLang, Zhipu, Gemini.
    (&["insufficient_system_resource", "abort", "aborted", "network_error"], FinishKind::Interrupted),
    (&["cancelled", "canceled", "timeout", "interrupted", "incomplete"], FinishKind::Interrupted),
    (&["malformed_function_call", "unexpected_tool_call"], FinishKind::Interrupted),
    (&["error"], FinishKind::Failure),
];

impl FinishKind {
    pub(super) fn of(reason: &str) -> Self {
        let is_of = |(words, _): &&(&[&str], Self)| words.iter().any(|it| it.eq_ignore_ascii_case(reason));
        REASONS.iter().find(is_of).map_or(Self::Unknown, |(_, kind)| *kind)
    }
}

impl FinishState {
    /// Takes the reason of a chunk. An empty reason does not end the reply: Ollama and SGLang send
    /// it with each chunk.
    pub(super) fn take(&mut self, reason: String) {
        let is_filled = !reason.is_empty();
        self.is_over |= is_filled;
        if is_filled || self.reason.is_none() {
            self.reason = Some(reason);
        }
    }

    /// Reopens the reply for more content. Some servers send a reason at the end of the reasoning,
    /// too.
    pub(super) fn reopen(&mut self) {
        self.is_over = false;
    }

    /// Returns `true` after a reason. Only the usage may follow.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    pub(super) fn kind(&self) -> FinishKind {
        FinishKind::of(self.reason())
    }

    /// Returns `true` if the reason is tool calls.
    pub(super) fn is_tool_calls(&self) -> bool {
        ["tool_calls", "function_call", "tool_call", "tool_use"]
            .iter()
            .any(|it| it.eq_ignore_ascii_case(self.reason()))
    }

    /// The reason as the server sent it.
    pub(super) fn reason(&self) -> &str {
        self.reason.as_deref().unwrap_or_default()
    }

    /// The reason for a message.
    pub(super) fn into_reason(self, message: &AssistantMessage) -> FinishReason {
        match (self.kind(), self.reason) {
            (FinishKind::Limit, _) => FinishReason::Length,
            (FinishKind::Filter, _) => FinishReason::ContentFilter,
            (FinishKind::Unknown, Some(reason)) => FinishReason::Other(reason),
            // Many servers send `stop` beside calls, and some send no reason.
            _ if message.tool_calls.is_empty() => FinishReason::Stop,
            _ => FinishReason::ToolCalls,
        }
    }
}
