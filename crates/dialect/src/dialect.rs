//! The trait [`Dialect`], and the default dialect of a model.

use std::sync::Arc;

use haft_core::{
    Schema,
    model::{ChatRequest, ChatResponse, ModelProfile},
};

use crate::{JsonReact, NativeCalls, Prompt, Reply, StreamParser, TextReact};

/// The tool name `finish`. Most dialects reserve this name: a call to `finish` ends the run, and
/// the arguments of the call are the answer.
pub const FINISH: &str = "finish";

/// A format of model requests and replies, for example native function calls or ReAct steps as
/// JSON.
///
/// The transcript is independent of the dialect, so a conversation can continue in a different
/// dialect.
///
/// # Examples
///
/// A dialect for a server that leaves the end marker of the model in the text:
///
/// ```
/// use haft_core::{
///     Schema,
///     model::{ChatEvent, ChatRequest, ChatResponse},
/// };
/// use haft_dialect::{Dialect, NativeCalls, Prompt, Reply, ReplyContext, ReplyDelta, StreamParser, read_reply};
///
/// const MARKER: &str = "<|im_end|>";
///
/// struct MarkedCalls;
///
/// impl Dialect for MarkedCalls {
///     fn name(&self) -> &'static str {
///         "marked"
///     }
///
///     fn build_request(&self, prompt: &Prompt<'_>) -> ChatRequest {
///         NativeCalls.build_request(prompt)
///     }
///
///     fn parse_reply(&self, response: ChatResponse, outputs: Option<&Schema>) -> Reply {
///         let mut reply = NativeCalls.parse_reply(response, outputs);
///         if let Some(text) = reply.message.text().strip_suffix(MARKER) {
///             reply.message.content = vec![text.into()];
///         }
///         reply
///     }
///
///     fn stream_parser(&self, outputs: Option<&Schema>) -> Box<dyn StreamParser> {
///         Box::new(WithoutMarker(NativeCalls.stream_parser(outputs)))
///     }
///
///     fn reserved_name(&self, outputs: Option<&Schema>) -> Option<&'static str> {
///         NativeCalls.reserved_name(outputs)
///     }
/// }
///
/// struct WithoutMarker(Box<dyn StreamParser>);
///
/// impl StreamParser for WithoutMarker {
///     fn push(&mut self, event: &ChatEvent) -> Vec<ReplyDelta> {
///         match event {
///             // The marker is one token, and servers send it as one delta.
///             ChatEvent::TextDelta { text } if text == MARKER => Vec::new(),
///             other => self.0.push(other),
///         }
///     }
/// }
///
/// let response = ChatResponse::new("42<|im_end|>");
/// let reply = read_reply(&MarkedCalls, response, &ReplyContext::default());
/// assert_eq!(reply.message.text(), "42");
/// ```
pub trait Dialect: Send + Sync {
    /// Returns the name of the dialect, such as `native`.
    fn name(&self) -> &'static str;

    /// Converts `prompt` to a model request.
    fn build_request(&self, prompt: &Prompt<'_>) -> ChatRequest;

    /// Parses a complete `response` from the model. `outputs` must be the [`Prompt::outputs`] of
    /// the model request.
    fn parse_reply(&self, response: ChatResponse, outputs: Option<&Schema>) -> Reply;

    /// Creates a parser for one streamed reply. `outputs` must be the [`Prompt::outputs`] of the
    /// model request.
    fn stream_parser(&self, outputs: Option<&Schema>) -> Box<dyn StreamParser>;

    /// Returns the tool name that the dialect reserves for the answer, such as [`FINISH`], or
    /// `None` if all names are available to tools.
    fn reserved_name(&self, outputs: Option<&Schema>) -> Option<&'static str>;

    /// Returns `true` if calls of offered tools that the model wrote as text are taken as calls, see
    /// [`NativeCalls`]. Default: `false`.
    fn reads_written_calls(&self) -> bool {
        false
    }

    /// Returns the dialect to which a run moves if the server does not return native calls, see
    /// [`AutoDialect`](crate::AutoDialect). Default: `None`.
    fn fallback(&self) -> Option<&dyn Dialect> {
        None
    }
}

impl<D: Dialect + ?Sized> Dialect for Arc<D> {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn build_request(&self, prompt: &Prompt<'_>) -> ChatRequest {
        (**self).build_request(prompt)
    }

    fn parse_reply(&self, response: ChatResponse, outputs: Option<&Schema>) -> Reply {
        (**self).parse_reply(response, outputs)
    }

    fn stream_parser(&self, outputs: Option<&Schema>) -> Box<dyn StreamParser> {
        (**self).stream_parser(outputs)
    }

    fn reserved_name(&self, outputs: Option<&Schema>) -> Option<&'static str> {
        (**self).reserved_name(outputs)
    }

    fn reads_written_calls(&self) -> bool {
        (**self).reads_written_calls()
    }

    fn fallback(&self) -> Option<&dyn Dialect> {
        (**self).fallback()
    }
}

/// Returns the default dialect for a model: [`NativeCalls`] if the model supports function calling,
/// [`JsonReact`] if the model supports JSON schemas but not function calling, and [`TextReact`] if
/// it supports neither.
pub fn dialect_for(profile: &ModelProfile) -> Arc<dyn Dialect> {
    match (profile.supports_native_tools, profile.supports_json_schema) {
        (true, _) => Arc::new(NativeCalls),
        (false, true) => Arc::new(JsonReact::new()),
        (false, false) => Arc::new(TextReact),
    }
}
