use serde::{Deserialize, Serialize};

use crate::message::{AssistantMessage, HostedCall};
use crate::usage::Usage;

/// A complete reply from a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChatResponse {
    /// The message of the model: text, reasoning and tool calls.
    pub message: AssistantMessage,
    /// The reason why the reply ended.
    pub finish_reason: FinishReason,
    /// The tokens and the cost of the request.
    #[serde(default)]
    pub usage: Usage,
    /// The id that the provider assigned to the reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The name of the model, as reported by the provider. It may differ from the requested model
    /// name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

impl ChatResponse {
    /// Creates a reply without usage, id or model name. The finish reason is
    /// [`FinishReason::ToolCalls`] if `message` has tool calls, and [`FinishReason::Stop`] if it
    /// has none.
    pub fn new(message: impl Into<AssistantMessage>) -> Self {
        let message = message.into();
        let finish_reason =
            if message.tool_calls.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls };
        Self { message, finish_reason, usage: Usage::default(), id: None, model: None }
    }

    /// Converts the reply into the events of a streamed reply. The calls of hosted tools are first.
    /// The reasoning and the text are one delta each, if present. Each tool call is a [`ChatEvent::ToolCallStarted`] and one delta
    /// with all arguments. The last event is [`ChatEvent::Finished`].
    pub fn into_events(self) -> impl Iterator<Item = ChatEvent> {
        let reasoning = self.message.reasoning.clone().map(|text| ChatEvent::ReasoningDelta { text });
        let text = Some(self.message.text()).filter(|text| !text.is_empty());
        let text = text.map(|text| ChatEvent::TextDelta { text });
        let calls: Vec<_> = self.message.tool_calls.iter().enumerate().flat_map(call_events).collect();
        let hosted: Vec<_> = self.message.hosted_calls.iter().flat_map(hosted_call_events).collect();
        hosted
            .into_iter()
            .chain(reasoning)
            .chain(text)
            .chain(calls)
            .chain([ChatEvent::Finished(Box::new(self))])
    }
}

fn hosted_call_events(call: &HostedCall) -> [ChatEvent; 2] {
    [
        ChatEvent::HostedCallStarted { id: call.id.clone(), tool: call.tool.clone() },
        ChatEvent::HostedCallFinished { call: call.clone() },
    ]
}

fn call_events((index, call): (usize, &crate::call::ToolCall)) -> [ChatEvent; 2] {
    [
        ChatEvent::ToolCallStarted { index, id: call.id.clone(), name: call.name.clone() },
        ChatEvent::ToolCallDelta { index, arguments: call.arguments.to_string() },
    ]
}

/// An event of a streamed reply. Events are serialized as JSON objects with a `type` field, for
/// example `"type": "text_delta"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ChatEvent {
    /// The next piece of the reply text.
    TextDelta {
        /// A piece of the reply text.
        text: String,
    },
    /// The next piece of the model's reasoning text.
    ReasoningDelta {
        /// A piece of the reasoning text.
        text: String,
    },
    /// The model started a tool call.
    ToolCallStarted {
        /// The index of the tool call in the reply, counted from 0.
        index: usize,
        /// The id of the tool call.
        id: String,
        /// The name of the called tool.
        name: String,
    },
    /// The next piece of the arguments of a tool call, for display only. The complete calls are in
    /// [`Finished`](Self::Finished).
    ToolCallDelta {
        /// The index of the tool call in the reply, counted from 0.
        index: usize,
        /// A piece of the arguments as JSON text.
        arguments: String,
    },
    /// The provider started a call of a hosted tool.
    HostedCallStarted {
        /// The id of the call, from the provider.
        id: String,
        /// The name of the tool, as in [`HostedCall::tool`].
        tool: String,
    },
    /// The provider finished a call of a hosted tool.
    HostedCallFinished {
        /// The call, with its output if the provider sends it.
        call: HostedCall,
    },
    /// The complete reply. This is the last event.
    Finished(Box<ChatResponse>),
}

/// The reason why a reply ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "an unknown reason is `Other`")]
pub enum FinishReason {
    /// The model finished its answer.
    Stop,
    /// The model ended the reply to call tools.
    ToolCalls,
    /// The reply reached the token limit and is incomplete.
    Length,
    /// A content filter of the provider stopped the reply.
    ContentFilter,
    /// Any other reason. Contains the finish reason as sent by the server.
    Other(String),
}

impl FinishReason {
    /// Returns `true` if the reply is incomplete because of the token limit or a content filter.
    pub fn is_cut(&self) -> bool {
        matches!(self, Self::Length | Self::ContentFilter)
    }
}
