//! Replies, independent of the dialect.

use haft_core::{
    message::AssistantMessage,
    model::{ChatResponse, FinishReason},
    usage::Usage,
};
use serde::{Deserialize, Serialize};

/// A reply of a model, independent of the dialect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// The message: calls, an answer, or text that cannot be parsed.
    pub message: AssistantMessage,
    /// The finish reason.
    pub finish_reason: FinishReason,
    /// Tokens and cost.
    #[serde(default)]
    pub usage: Usage,
    /// The reason, for the model, for which the reply is rejected. `None` for a usable reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Converts a response that needs no parsing, as in function calling.
impl From<ChatResponse> for Reply {
    fn from(response: ChatResponse) -> Self {
        let ChatResponse { message, finish_reason, usage, .. } = response;
        Self { message, finish_reason, usage, problem: None }
    }
}
