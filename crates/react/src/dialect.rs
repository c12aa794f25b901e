//! How a model is spoken to.

mod json;
mod native;
mod step;
mod text;

use std::{mem, sync::Arc};

use haft_core::{
    Message, Schema,
    message::{AssistantMessage, View},
    model::{ChatEvent, ChatRequest, ChatResponse, ChatSettings, ModelProfile, ToolChoice},
    toolset::ToolList,
};

use crate::Reply;

pub use json::JsonReact;
pub(crate) use json::json_object;
pub use native::NativeCalls;
pub use text::TextReact;

/// The name by which a model ends a run, where the dialect has it call something to do so.
pub const FINISH: &str = "finish";

/// How a model is spoken to: renders a request and reads the reply, whole or as it comes.
///
/// The transcript knows nothing of it: what one dialect said, another goes on with.
pub trait Dialect: Send + Sync {
    /// Names the dialect, such as `native`.
    fn name(&self) -> &'static str;

    /// Puts a request together.
    fn request(&self, prompt: &Prompt<'_>) -> ChatRequest;

    /// Reads a whole reply; `outputs` is that of the [`Prompt`].
    fn fold(&self, response: ChatResponse, outputs: Option<&Schema>) -> Reply;

    /// Listens to one reply as it comes; `outputs` is that of the [`Prompt`].
    fn listener(&self, outputs: Option<&Schema>) -> Box<dyn Listener>;

    /// The name that no tool of the user may have, if there is one.
    fn reserved_name(&self, outputs: Option<&Schema>) -> Option<&'static str>;
}

impl<D: Dialect + ?Sized> Dialect for Arc<D> {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn request(&self, prompt: &Prompt<'_>) -> ChatRequest {
        (**self).request(prompt)
    }

    fn fold(&self, response: ChatResponse, outputs: Option<&Schema>) -> Reply {
        (**self).fold(response, outputs)
    }

    fn listener(&self, outputs: Option<&Schema>) -> Box<dyn Listener> {
        (**self).listener(outputs)
    }

    fn reserved_name(&self, outputs: Option<&Schema>) -> Option<&'static str> {
        (**self).reserved_name(outputs)
    }
}

/// What a model is asked, whatever the dialect.
pub struct Prompt<'a> {
    /// The conversation, as the model is to see it.
    pub messages: View,
    /// The tools on offer.
    pub tools: &'a ToolList,
    /// What comes before the conversation.
    pub instructions: Option<&'a Arc<Message>>,
    /// The form of the answer, where it is data.
    pub outputs: Option<&'a Schema>,
    /// Whether the model must answer now, without a call, whatever `tool_choice` says.
    pub must_answer: bool,
    /// Whether the model may, must or must not call. A tool that is named is on offer.
    pub tool_choice: &'a ToolChoice,
    /// How the reply is made.
    pub settings: &'a ChatSettings,
}

/// Tells the words of a reply from the protocol around them, while it comes.
pub trait Listener: Send {
    /// Takes one event, and gives what a person may see of it.
    fn hear(&mut self, event: &ChatEvent) -> Vec<Delta>;
}

/// A piece of a reply for whoever watches.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delta {
    /// More of the answer.
    Text(String),
    /// More of what the model thinks.
    Thought(String),
}

impl Delta {
    fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) | Self::Thought(text) => text.is_empty(),
        }
    }
}

/// Takes the calls of [`FINISH`] out of a reply, and gives the arguments of one that stands alone. Beside other calls it
/// came too early: those run, and it is made again.
fn take_finish(message: &mut AssistantMessage) -> Option<String> {
    let calls = mem::take(&mut message.tool_calls);
    let (finish, others): (Vec<_>, Vec<_>) = calls.into_iter().partition(|call| call.name == FINISH);
    message.tool_calls = others;
    let finish = finish.into_iter().next().filter(|_| message.tool_calls.is_empty());
    finish.map(|call| call.arguments)
}

/// The dialect for a model, by what it says that it can do: function calling where it has it, JSON where that can be
/// constrained, else plain text.
pub fn dialect_for(profile: &ModelProfile) -> Arc<dyn Dialect> {
    match (profile.native_tools, profile.json_schema) {
        (true, _) => Arc::new(NativeCalls),
        (false, true) => Arc::new(JsonReact::new()),
        (false, false) => Arc::new(TextReact),
    }
}
