//! What a model replied, in the words of the transcript.

use haft_core::{
    message::AssistantMessage,
    model::{ChatResponse, FinishReason},
    usage::Usage,
};
use serde::{Deserialize, Serialize};

/// A reply without the dialect that it was given in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// What the model said: calls, an answer, or what could not be read.
    pub message: AssistantMessage,
    /// Why it stopped.
    pub finish_reason: FinishReason,
    /// What it cost.
    #[serde(default)]
    pub usage: Usage,
    /// Why the reply cannot be used, in words for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Takes a reply that is in the words of the transcript already.
impl From<ChatResponse> for Reply {
    fn from(response: ChatResponse) -> Self {
        let ChatResponse { message, finish_reason, usage, .. } = response;
        Self { message, finish_reason, usage, problem: None }
    }
}
