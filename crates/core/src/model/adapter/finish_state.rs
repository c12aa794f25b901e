#[cfg(test)]
mod tests;

use super::in_band_error::excerpt;
use crate::{message::AssistantMessage, model::FinishReason};

/// The finish reason of a reply, and a flag that is `true` when the reply has ended.
#[derive(Debug, Default)]
pub struct FinishState {
    reason: Option<String>,
    message: Option<String>,
    is_over: bool,
}

/// The meaning of a server's finish reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FinishKind {
    /// The model finished the reply.
    Complete,
    /// A token limit stopped the reply.
    Limit,
    /// A content filter stopped the reply.
    Filter,
    /// The server interrupted the reply.
    Interrupted,
    /// The server could not use the output of the model, for example because it could not parse a
    /// call.
    Malformed,
    /// The server rejected the request or the account. A retry cannot succeed.
    Rejected,
    /// The server failed while it generated the reply.
    Failure,
    /// The reason is missing or unknown.
    Unknown,
}

/// The known finish reasons and their kinds. Reasons are compared case-insensitively.
const KINDS_BY_REASON: &[(&[&str], FinishKind)] = &[
    // The first list contains OpenAI's reasons and variants of them. The second list contains
    // reasons of Anthropic, Cohere, Hugging Face and Together, which arrive through gateways.
    (&["stop", "tool_calls", "function_call", "tool_call", "tool_use"], FinishKind::Complete),
    (
        &["end_turn", "stop_sequence", "eos", "eos_token", "end", "complete", "completed"],
        FinishKind::Complete,
    ),
    // Finish reasons of OpenAI (Chat Completions and Responses), Anthropic, Gemini and Mistral.
    (&["length", "max_output_tokens", "max_tokens", "model_length"], FinishKind::Limit),
    // Gemini sends `CONTINUATION` at the token limit of one request.
    (&["model_context_window_exceeded", "max_length", "continuation"], FinishKind::Limit),
    // The reasons in the first list are from OpenAI, Zhipu, Bedrock and Anthropic. Those in the
    // other lists are from Gemini.
    (
        &["content_filter", "content_filtered", "sensitive", "guardrail_intervened", "refusal"],
        FinishKind::Filter,
    ),
    (
        &["safety", "recitation", "prohibited_content", "blocklist", "spii", "image_safety"],
        FinishKind::Filter,
    ),
    (
        &["language", "escalation", "model_armor", "image_prohibited_content", "image_recitation"],
        FinishKind::Filter,
    ),
    // Finish reasons of DeepSeek, vLLM, SGLang, Zhipu and Gemini.
    (&["insufficient_system_resource", "abort", "aborted", "network_error"], FinishKind::Interrupted),
    (&["cancelled", "canceled", "timeout", "interrupted", "incomplete"], FinishKind::Interrupted),
    (
        &["malformed_function_call", "unexpected_tool_call", "too_many_tool_calls", "malformed_response"],
        FinishKind::Malformed,
    ),
    (&["missing_thought_signature", "pup_limited_disabled"], FinishKind::Rejected),
    (&["error"], FinishKind::Failure),
];

impl FinishKind {
    /// Returns the kind of `reason`, the finish reason of a server of any provider.
    pub fn of(reason: &str) -> Self {
        // Gemini also sends reasons such as `function_call_filter: MALFORMED_FUNCTION_CALL`.
        let words = [reason].into_iter().chain(reason.split(':').rev().map(str::trim));
        let kind_of = |word: &str| {
            let is_of = |(words, _): &&(&[&str], Self)| words.iter().any(|it| it.eq_ignore_ascii_case(word));
            KINDS_BY_REASON.iter().find(is_of).map(|(_, kind)| *kind)
        };
        words.into_iter().find_map(kind_of).unwrap_or(Self::Unknown)
    }
}

impl FinishState {
    /// Stores `reason`, the finish reason of a chunk. An empty reason does not end the reply,
    /// because Ollama and SGLang send an empty reason with each chunk.
    pub fn set_reason(&mut self, reason: String) {
        let is_filled = !reason.is_empty();
        self.is_over |= is_filled;
        if is_filled || self.reason.is_none() {
            self.reason = Some(reason);
        }
    }

    /// Stores `message`, the explanation of the finish reason by the server. An empty message is
    /// ignored.
    pub fn set_message(&mut self, message: String) {
        if !message.is_empty() {
            self.message = Some(message);
        }
    }

    /// Marks the reply as unfinished because more content arrived. Some servers send a finish
    /// reason at the end of the reasoning, before the answer.
    pub fn reopen(&mut self) {
        self.is_over = false;
    }

    /// Returns `true` if the finish reason was received and no content has followed it.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns the kind of the finish reason.
    pub fn kind(&self) -> FinishKind {
        FinishKind::of(self.reason())
    }

    /// Returns `true` if the finish reason means that the model calls tools.
    pub fn means_tool_calls(&self) -> bool {
        ["tool_calls", "function_call", "tool_call", "tool_use"]
            .iter()
            .any(|it| it.eq_ignore_ascii_case(self.reason()))
    }

    /// Returns the reason as the server sent it, or an empty string.
    pub fn reason(&self) -> &str {
        self.reason.as_deref().unwrap_or_default()
    }

    /// Returns the reason with the explanation of the server, for error messages.
    pub(super) fn describe(&self) -> String {
        match &self.message {
            Some(message) => format!("{}: {}", self.reason(), excerpt(message)),
            None => self.reason().to_owned(),
        }
    }

    /// Converts the finish reason. A regular or missing reason becomes `ToolCalls` if `message` has
    /// calls or the reason announces calls, or else `Stop`. An unknown reason is returned unchanged
    /// in `Other`.
    pub fn into_reason(self, message: &AssistantMessage) -> FinishReason {
        let announces_calls = self.means_tool_calls();
        match (self.kind(), self.reason) {
            (FinishKind::Limit, _) => FinishReason::Length,
            (FinishKind::Filter, _) => FinishReason::ContentFilter,
            (FinishKind::Unknown, Some(reason)) => FinishReason::Other(reason),
            // Many servers send `stop` although the message has calls, and some send no reason.
            _ if message.tool_calls.is_empty() && !announces_calls => FinishReason::Stop,
            _ => FinishReason::ToolCalls,
        }
    }
}
