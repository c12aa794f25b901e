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
    /// The message: calls, an answer, or unreadable text.
    pub message: AssistantMessage,
    /// The finish reason.
    pub finish_reason: FinishReason,
    /// Tokens and cost.
    #[serde(default)]
    pub usage: Usage,
    /// The problem with the reply, for the model, if it cannot be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// For replies that are independent of a dialect already.
impl From<ChatResponse> for Reply {
    fn from(response: ChatResponse) -> Self {
        let ChatResponse { message, finish_reason, usage, .. } = response;
        Self { message, finish_reason, usage, problem: None }
    }
}
