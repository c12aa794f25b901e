//! Parsed replies, independent of the dialect.

use haft_core::{
    message::AssistantMessage,
    model::{ChatResponse, FinishReason},
    usage::Usage,
};
use serde::{Deserialize, Serialize};

/// A parsed reply from a model, independent of the dialect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// The parsed message. It has tool calls or an answer; if `problem` is set, it has the original
    /// text.
    pub message: AssistantMessage,
    /// The reason why the model stopped.
    pub finish_reason: FinishReason,
    /// The tokens and the cost of the reply.
    #[serde(default)]
    pub usage: Usage,
    /// The reason why the reply is rejected, as a text for the model. `None` for a usable reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Converts a response whose text needs no parsing, as in native function calling.
impl From<ChatResponse> for Reply {
    fn from(response: ChatResponse) -> Self {
        let ChatResponse { message, finish_reason, usage, .. } = response;
        Self { message, finish_reason, usage, problem: None }
    }
}
