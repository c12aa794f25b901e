//! Dialects: the formats in which an agent exchanges steps with a model.

mod auto;
mod declared_keys;
mod json;
mod native;
mod partial_json;
mod reply;
mod step;
mod text;
mod thinking;
mod written_calls;

use std::sync::Arc;

use haft_core::{
    Message, Schema, lenient_json,
    message::TranscriptView,
    model::{ChatEvent, ChatRequest, ChatResponse, ChatSettings, FinishReason, ModelProfile, ToolChoice},
    schema::JsonText,
    toolset::ToolList,
};

pub use auto::AutoDialect;
pub(crate) use declared_keys::declares_keys;
pub use json::JsonReact;
pub(crate) use json::{find_json_object, strip_fence};
pub use native::NativeCalls;
pub use partial_json::{PartialJson, parse_partial};
pub use reply::Reply;
pub(crate) use step::bare_finish_schema;
pub use text::TextReact;
pub(crate) use thinking::{join_reasoning, split_thinking};
pub(crate) use written_calls::{CallableNames, HeldTextParser, WrittenCalls, parse_calls};

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
///     Schema, Toolset,
///     model::{ChatEvent, ChatRequest, ChatResponse},
/// };
/// use haft_react::{
///     ReactAgent,
///     dialect::{Dialect, NativeCalls, Prompt, Reply, ReplyDelta, StreamParser},
/// };
/// use haft_testing::ScriptedModel;
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
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let model = ScriptedModel::new().reply_text("42<|im_end|>");
/// let agent = ReactAgent::builder(model).tools(Toolset::new()).dialect(MarkedCalls).build()?;
/// assert_eq!(agent.run("What is 17 plus 25?").await?.text()?, "42");
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
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

    /// Returns `true` if a run takes calls of offered tools that the model wrote as text, see
    /// [`NativeCalls`]. Default: `false`.
    fn reads_written_calls(&self) -> bool {
        false
    }

    /// Returns the dialect to which a run [moves](crate::Run::uses_fallback_dialect) if the server
    /// does not return native calls, see [`AutoDialect`]. Default: `None`.
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

/// The content of a model request, before a [`Dialect`] formats it.
pub struct Prompt<'a> {
    /// The messages of the conversation that are sent to the model.
    pub messages: TranscriptView,
    /// The tools that the model can call.
    pub tools: &'a ToolList,
    /// The system message that precedes the conversation.
    pub instructions: Option<&'a Arc<Message>>,
    /// The JSON schema of the answer, or `None` if the answer is plain text.
    pub outputs: Option<&'a Schema>,
    /// `true` if the model must answer without a tool call. In this case `tool_choice` is ignored.
    pub must_answer: bool,
    /// The tool choice of the model request. If it names a tool, `tools` contains that tool.
    pub tool_choice: &'a ToolChoice,
    /// The settings of the model request, such as the temperature.
    pub settings: &'a ChatSettings,
}

/// A parser for one streamed reply. It emits the thought, the answer and the calls, without the
/// syntax of the reply format, such as JSON keys or labels.
///
/// # Examples
///
/// ```
/// use haft_core::model::ChatEvent;
/// use haft_react::dialect::{ReplyDelta, StreamParser};
///
/// /// Emits the text after the label `Answer: `. The label may be split between two events.
/// #[derive(Default)]
/// struct AnswerParser {
///     held: String,
///     is_answer: bool,
/// }
///
/// impl StreamParser for AnswerParser {
///     fn push(&mut self, event: &ChatEvent) -> Vec<ReplyDelta> {
///         let ChatEvent::TextDelta { text } = event else { return Vec::new() };
///         if self.is_answer {
///             return vec![ReplyDelta::Text(text.clone())];
///         }
///         self.held.push_str(text);
///         let Some((_, answer)) = self.held.split_once("Answer: ") else { return Vec::new() };
///         self.is_answer = true;
///         vec![ReplyDelta::Text(answer.to_owned())]
///     }
/// }
///
/// let mut parser = AnswerParser::default();
/// let events = ["I know it. Ans", "wer: 4", "2"].map(|text| ChatEvent::TextDelta { text: text.to_owned() });
/// let deltas: Vec<_> = events.iter().flat_map(|event| parser.push(event)).collect();
/// assert_eq!(deltas, [ReplyDelta::Text("4".to_owned()), ReplyDelta::Text("2".to_owned())]);
/// ```
pub trait StreamParser: Send {
    /// Parses one stream event. Returns the pieces of text that can now be shown to the user.
    fn push(&mut self, event: &ChatEvent) -> Vec<ReplyDelta>;
}

/// A piece of a streamed reply that can be shown to the user.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplyDelta {
    /// A piece of the answer, to be appended to the previous pieces.
    Text(String),
    /// A piece of the reasoning, to be appended to the previous pieces.
    Reasoning(String),
    /// The start of a tool call. Optional: calls that are not in the deltas are announced at the
    /// end of the reply.
    CallStarted {
        /// The index of the call in the reply.
        index: usize,
        /// The id of the call. Empty if the reply format has no ids.
        id: String,
        /// The name of the tool.
        name: String,
    },
    /// A piece of the arguments of a call as JSON text.
    CallArguments {
        /// The index of the call in the reply.
        index: usize,
        /// A piece of the arguments.
        arguments: String,
    },
    /// A piece of the JSON text of the structured answer.
    Output(String),
}

impl ReplyDelta {
    fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) | Self::Reasoning(text) | Self::Output(text) => text.is_empty(),
            Self::CallStarted { .. } | Self::CallArguments { .. } => false,
        }
    }
}

/// Removes the call to [`FINISH`] from `reply` if it is the only call, and returns its arguments.
/// The reply then announces no call. Returns `None` if there is no such call, or if the reply has
/// other calls: the run then decides with its [`EndStrategy`](crate::run::EndStrategy).
fn take_finish(reply: &mut Reply) -> Option<JsonText> {
    let calls = &mut reply.message.tool_calls;
    let is_alone = matches!(calls.as_slice(), [call] if call.name == FINISH);
    let call = is_alone.then(|| calls.pop())??;
    reply.finish_reason = FinishReason::Stop;
    Some(call.arguments)
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

impl std::fmt::Debug for Prompt<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prompt")
            .field("messages", &self.messages.len())
            .field("tools", &self.tools.len())
            .finish_non_exhaustive()
    }
}
