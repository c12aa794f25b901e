use haft_core::{AssistantMessage, FinishReason};

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
    /// The server failed.
    Failure,
    /// There is no reason, or one that is not known.
    Unknown,
}

/// The words of OpenAI's two APIs, of gateways to Anthropic and Gemini, and of Mistral, however they are written.
const REASONS: &[(&[&str], Kind)] = &[
    (&["stop", "tool_calls", "function_call"], Kind::Complete),
    (&["length", "max_output_tokens", "max_tokens", "model_length"], Kind::Limit),
    (&["content_filter"], Kind::Filter),
    (&["error"], Kind::Failure),
];

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
        let reason = self.reason.as_deref().unwrap_or_default();
        let is_of = |(words, _): &&(&[&str], Kind)| words.iter().any(|it| it.eq_ignore_ascii_case(reason));
        REASONS.iter().find(is_of).map_or(Kind::Unknown, |(_, kind)| *kind)
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
