use serde::{Deserialize, Serialize};

use crate::message::AssistantMessage;
use crate::usage::Usage;

/// A complete reply of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChatResponse {
    /// The message: text, reasoning and calls.
    pub message: AssistantMessage,
    /// The reason for the end of the reply.
    pub finish_reason: FinishReason,
    /// Tokens and cost of the request.
    #[serde(default)]
    pub usage: Usage,
    /// The id of the reply, assigned by the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The name of the model, as reported by the provider. It may differ from the requested name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

impl ChatResponse {
    /// Makes a reply without usage or ids. The finish reason is [`FinishReason::ToolCalls`] if the
    /// message has calls, else [`FinishReason::Stop`].
    pub fn new(message: impl Into<AssistantMessage>) -> Self {
        let message = message.into();
        let finish_reason =
            if message.tool_calls.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls };
        Self { message, finish_reason, usage: Usage::default(), id: None, model: None }
    }

    /// Converts the reply into the events of a stream, with one delta for each part.
    pub fn into_events(self) -> impl Iterator<Item = ChatEvent> {
        let reasoning = self.message.reasoning.clone().map(|text| ChatEvent::ReasoningDelta { text });
        let text = Some(self.message.text()).filter(|text| !text.is_empty());
        let text = text.map(|text| ChatEvent::TextDelta { text });
        let calls: Vec<_> = self.message.tool_calls.iter().enumerate().flat_map(call_events).collect();
        reasoning.into_iter().chain(text).chain(calls).chain([ChatEvent::Finished(Box::new(self))])
    }
}

fn call_events((index, call): (usize, &crate::call::ToolCall)) -> [ChatEvent; 2] {
    [
        ChatEvent::ToolCallStarted { index, id: call.id.clone(), name: call.name.clone() },
        ChatEvent::ToolCallDelta { index, arguments: call.arguments.to_string() },
    ]
}

/// An event of a streamed reply. Its JSON is an object with a `type`, such as `text_delta`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ChatEvent {
    /// More text.
    TextDelta {
        /// The new text.
        text: String,
    },
    /// More reasoning.
    ReasoningDelta {
        /// The new text.
        text: String,
    },
    /// The start of a call.
    ToolCallStarted {
        /// The index of the call in this reply, from 0.
        index: usize,
        /// The id of the call.
        id: String,
        /// The name of the tool.
        name: String,
    },
    /// More of the arguments of a call. For display only: complete calls are in `Finished`.
    ToolCallDelta {
        /// The index of the call in this reply, from 0.
        index: usize,
        /// The new text.
        arguments: String,
    },
    /// The complete reply; the last event.
    Finished(Box<ChatResponse>),
}

/// The reason for the end of a reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "an unknown reason is `Other`")]
pub enum FinishReason {
    /// The model finished its answer.
    Stop,
    /// The reply ends with tool calls.
    ToolCalls,
    /// The token limit was reached; the text is incomplete.
    Length,
    /// A content filter of the provider stopped the reply.
    ContentFilter,
    /// Another reason, in the spelling of the server.
    Other(String),
}
