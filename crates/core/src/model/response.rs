use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

use super::Cost;
use crate::AssistantMessage;

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

fn call_events((index, call): (usize, &crate::ToolCall)) -> [ChatEvent; 2] {
    [
        ChatEvent::ToolCallStarted { index, id: call.id.clone(), name: call.name.clone() },
        ChatEvent::ToolCallDelta { index, arguments: call.arguments.clone() },
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

/// What requests cost. Sums with `+`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// How many requests there were.
    pub requests: u64,
    /// Tokens that were read, those from a cache included.
    pub input_tokens: u64,
    /// Tokens that were written, those of reasoning included.
    pub output_tokens: u64,
    /// Those of the input that came from a cache.
    pub cached_input_tokens: u64,
    /// Those of the output that were reasoning.
    pub reasoning_tokens: u64,
    /// How many of the requests did not say what they used: their tokens are missing above. Requests that failed are such.
    #[serde(skip_serializing_if = "is_zero")]
    pub unreported: u64,
    /// What the requests cost whose price is [known](crate::ChatModelExt::priced).
    #[serde(skip_serializing_if = "Cost::is_zero")]
    pub cost: Cost,
    /// How many of the requests have their price in `cost`.
    #[serde(skip_serializing_if = "is_zero")]
    pub priced: u64,
}

impl Usage {
    /// The cost of one request.
    pub fn of_request(input_tokens: u64, output_tokens: u64) -> Self {
        Self { requests: 1, input_tokens, output_tokens, ..Self::default() }
    }

    /// What a request used that came to nothing: nobody says. It is taken as free, as it is with providers that charge for replies.
    pub fn of_failed_request() -> Self {
        Self { requests: 1, unreported: 1, priced: 1, ..Self::default() }
    }

    /// The same as the usage of one reply, which was a request, whether its provider says what it used or not.
    #[must_use]
    pub fn of_reply(self) -> Self {
        let unreported = if self.is_reported() { self.unreported } else { 1 };
        Self { requests: self.requests.max(1), unreported, ..self }
    }

    /// Whether it says what was used: no request uses no tokens.
    pub(super) fn is_reported(&self) -> bool {
        self.total_tokens() > 0
    }

    /// Whether what all of the requests cost is known.
    pub fn is_priced(&self) -> bool {
        self.priced >= self.requests
    }

    /// What is left of it without a part.
    #[must_use]
    pub(crate) fn without(self, part: Self) -> Self {
        Self {
            requests: self.requests.saturating_sub(part.requests),
            input_tokens: self.input_tokens.saturating_sub(part.input_tokens),
            output_tokens: self.output_tokens.saturating_sub(part.output_tokens),
            cached_input_tokens: self.cached_input_tokens.saturating_sub(part.cached_input_tokens),
            reasoning_tokens: self.reasoning_tokens.saturating_sub(part.reasoning_tokens),
            unreported: self.unreported.saturating_sub(part.unreported),
            cost: self.cost.without(part.cost),
            priced: self.priced.saturating_sub(part.priced),
        }
    }

    /// Tokens that were read or written.
    pub fn total_tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}

impl Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            requests: self.requests.saturating_add(other.requests),
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cached_input_tokens: self.cached_input_tokens.saturating_add(other.cached_input_tokens),
            reasoning_tokens: self.reasoning_tokens.saturating_add(other.reasoning_tokens),
            unreported: self.unreported.saturating_add(other.unreported),
            cost: self.cost + other.cost,
            priced: self.priced.saturating_add(other.priced),
        }
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives references")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
