//! The result of parsing a model reply, in a form that is independent of the dialect.

use haft_core::{
    ToolCall,
    message::AssistantMessage,
    model::{ChatResponse, FinishReason},
    schema::JsonText,
    usage::Usage,
};
use serde::{Deserialize, Serialize};

use crate::{FINISH, written_calls::WrittenCall};

/// A parsed reply from a model, independent of the dialect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// The parsed message, with tool calls or an answer. If the dialect rejects the reply, the
    /// message contains the unparsed text.
    pub message: AssistantMessage,
    /// The reason why the model stopped generating.
    pub finish_reason: FinishReason,
    /// The token counts and the cost of the reply.
    #[serde(default)]
    pub usage: Usage,
    /// The reason why the reply is rejected, as an error message for the model. `None` if the reply
    /// is usable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// `true` if the model wrote the calls of the message as text, and
    /// [`read_reply`](crate::read_reply) took them as calls.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_written_calls: bool,
}

/// Converts a response without parsing its text, as needed for native function calling.
impl From<ChatResponse> for Reply {
    fn from(response: ChatResponse) -> Self {
        let ChatResponse { message, finish_reason, usage, .. } = response;
        Self { message, finish_reason, usage, problem: None, has_written_calls: false }
    }
}

impl Reply {
    /// Replaces the content of the message with `calls`.
    pub(crate) fn set_calls(&mut self, calls: Vec<WrittenCall>) {
        self.message.content.clear();
        let calls = calls.into_iter().map(|call| ToolCall::new("", call.name, call.arguments));
        self.message.tool_calls = calls.collect();
    }

    /// Removes the call to [`FINISH`] if it is the only call, and returns its arguments. The reply
    /// then announces no call. Returns `None` if there is no such call, or if the reply has other
    /// calls.
    pub(crate) fn take_finish(&mut self) -> Option<JsonText> {
        let calls = &mut self.message.tool_calls;
        let is_alone = matches!(calls.as_slice(), [call] if call.name == FINISH);
        let call = is_alone.then(|| calls.pop())??;
        self.finish_reason = FinishReason::Stop;
        Some(call.arguments)
    }
}
