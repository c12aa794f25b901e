use serde::{Deserialize, Serialize};

use crate::message::AssistantMessage;
use crate::usage::Usage;

/// A complete reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChatResponse {
    /// What the model said.
    pub message: AssistantMessage,
    /// Why it stopped.
    pub finish_reason: FinishReason,
    /// What it cost.
    #[serde(default)]
    pub usage: Usage,
    /// The provider's id of the reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The model that answered, as the provider names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

impl ChatResponse {
    /// Makes a reply without usage or ids; it stopped for its calls if it has any.
    pub fn new(message: impl Into<AssistantMessage>) -> Self {
        let message = message.into();
        let finish_reason =
            if message.tool_calls.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls };
        Self { message, finish_reason, usage: Usage::default(), id: None, model: None }
    }

    /// The events of a stream that would give this reply in as few pieces as possible.
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

/// One piece of a reply that is under way. As JSON each has a `type`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ChatEvent {
    /// More of the text.
    TextDelta {
        /// The new text.
        text: String,
    },
    /// More of what the model thinks.
    ReasoningDelta {
        /// The new text.
        text: String,
    },
    /// A call begins.
    ToolCallStarted {
        /// Its place among the calls of this reply, from 0.
        index: usize,
        /// Its id.
        id: String,
        /// The tool's name.
        name: String,
    },
    /// More of a call's arguments. To be shown, never to be run: only `Finished` has complete calls.
    ToolCallDelta {
        /// Its place among the calls of this reply, from 0.
        index: usize,
        /// The new text.
        arguments: String,
    },
    /// The whole reply; the last event.
    Finished(Box<ChatResponse>),
}

/// Why a model stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "an unknown reason is `Other`")]
pub enum FinishReason {
    /// It was done.
    Stop,
    /// It asks for calls.
    ToolCalls,
    /// It reached a limit of tokens: the text is not whole.
    Length,
    /// A filter of the provider stopped it.
    ContentFilter,
    /// What else a server says, as it says it.
    Other(String),
}
