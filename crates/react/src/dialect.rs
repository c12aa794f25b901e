//! Dialects: the formats of requests and replies.

mod json;
mod native;
mod reply;
mod step;
mod text;

use std::{mem, sync::Arc};

use haft_core::{
    Message, Schema,
    message::{AssistantMessage, View},
    model::{ChatEvent, ChatRequest, ChatResponse, ChatSettings, ModelProfile, ToolChoice},
    schema::JsonText,
    toolset::ToolList,
};

pub use json::JsonReact;
pub(crate) use json::json_object;
pub use native::NativeCalls;
pub use reply::Reply;
pub use text::TextReact;

/// The name of the call that ends a run with the answer, in dialects that use one.
pub const FINISH: &str = "finish";

/// The format of requests and replies of a model.
///
/// The transcript does not depend on it: a conversation can continue in another dialect.
pub trait Dialect: Send + Sync {
    /// The name of the dialect, such as `native`.
    fn name(&self) -> &'static str;

    /// Builds a request.
    fn request(&self, prompt: &Prompt<'_>) -> ChatRequest;

    /// Parses a complete reply. `outputs` is [`Prompt::outputs`] of its request.
    fn fold(&self, response: ChatResponse, outputs: Option<&Schema>) -> Reply;

    /// Creates a parser for one streamed reply. `outputs` is [`Prompt::outputs`] of its request.
    fn listener(&self, outputs: Option<&Schema>) -> Box<dyn Listener>;

    /// The tool name that the dialect reserves, if any.
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

/// The content of a request, independent of the dialect.
pub struct Prompt<'a> {
    /// The view of the conversation that is sent to the model.
    pub messages: View,
    /// The tools of the request.
    pub tools: &'a ToolList,
    /// The system message before the conversation.
    pub instructions: Option<&'a Arc<Message>>,
    /// The output schema, if the answer is structured.
    pub outputs: Option<&'a Schema>,
    /// Set if the model must answer without a call. Overrides `tool_choice`.
    pub must_answer: bool,
    /// The tool choice. A tool that it names is always in `tools`.
    pub tool_choice: &'a ToolChoice,
    /// The settings of the request.
    pub settings: &'a ChatSettings,
}

/// A parser for a streamed reply: separates the text from the protocol around it.
pub trait Listener: Send {
    /// Parses one event, and returns the new text for a user.
    fn push(&mut self, event: &ChatEvent) -> Vec<Delta>;
}

/// New text of a streamed reply, for a user.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delta {
    /// More of the answer.
    Text(String),
    /// More of the reasoning.
    Thought(String),
}

impl Delta {
    fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) | Self::Thought(text) => text.is_empty(),
        }
    }
}

/// Removes the calls of [`FINISH`] from a reply. Returns the arguments of the first one if the
/// reply has no other calls. Otherwise the other calls are executed, and the model can finish in a
/// later reply.
fn take_finish(message: &mut AssistantMessage) -> Option<JsonText> {
    let calls = mem::take(&mut message.tool_calls);
    let (finish, others): (Vec<_>, Vec<_>) = calls.into_iter().partition(|call| call.name == FINISH);
    message.tool_calls = others;
    let finish = finish.into_iter().next().filter(|_| message.tool_calls.is_empty());
    finish.map(|call| call.arguments)
}

/// Returns the default dialect for a model: function calling if supported, else JSON if replies can
/// be constrained to a schema, else plain text.
pub fn dialect_for(profile: &ModelProfile) -> Arc<dyn Dialect> {
    match (profile.native_tools, profile.json_schema) {
        (true, _) => Arc::new(NativeCalls),
        (false, true) => Arc::new(JsonReact::new()),
        (false, false) => Arc::new(TextReact),
    }
}

impl std::fmt::Debug for Prompt<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prompt")
            .field("messages", &self.messages.len())
            .field("tools", &self.tools.len())
            .finish_non_exhaustive()
    }
}
