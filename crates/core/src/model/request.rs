use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::HostedTool;
use crate::{
    call::ToolResult,
    message::{Message, TranscriptView},
    pipeline::ToolList,
    schema::Schema,
    tool::ToolName,
};

/// A request to a model for the next message of a conversation. Cheap to clone.
///
/// # Examples
///
/// ```
/// use haft_core::{Message, model::{ChatRequest, ChatSettings}};
///
/// let request = ChatRequest {
///     instructions: Some(Message::system("Be brief.").into()),
///     settings: ChatSettings { max_tokens: Some(100), ..ChatSettings::default() },
///     ..ChatRequest::new([Message::user("What is 17 plus 25?")])
/// };
/// assert_eq!(request.all_messages().count(), 2);
/// ```
#[derive(Clone, Debug, Default)]
pub struct ChatRequest {
    /// The system message. It is sent before the conversation and is not part of the transcript.
    pub instructions: Option<Arc<Message>>,
    /// The messages of the conversation.
    pub messages: TranscriptView,
    /// The tools that are offered to the model.
    pub tools: ToolList,
    /// The tools that the provider executes. If the model has not all of them, the request fails with
    /// [`ModelError::Unsupported`](super::ModelError::Unsupported).
    pub hosted_tools: Arc<[HostedTool]>,
    /// The rule for tool calls in the reply: optional, forbidden or required.
    pub tool_choice: ToolChoice,
    /// The required format of the reply text.
    pub response_format: ResponseFormat,
    /// Sampling and length settings for the reply.
    pub settings: ChatSettings,
}

impl ChatRequest {
    /// Creates a request with `messages` and default settings, without instructions and tools.
    pub fn new(messages: impl IntoIterator<Item = Message>) -> Self {
        Self { messages: messages.into_iter().collect(), ..Self::default() }
    }

    /// Sets the tools that are offered to the model.
    #[must_use]
    pub fn with_tools(mut self, tools: ToolList) -> Self {
        self.tools = tools;
        self
    }

    /// Returns the results of tool calls in the messages, in order.
    ///
    /// Written dialects, such as `haft_dialect::JsonReact`, send results as text. Their requests have
    /// no results here; the transcript of the run has them.
    pub fn tool_results(&self) -> impl Iterator<Item = &ToolResult> {
        self.messages.tool_results()
    }

    /// Returns the instructions, if any, followed by the messages.
    pub fn all_messages(&self) -> impl Iterator<Item = &Arc<Message>> {
        self.instructions.iter().chain(self.messages.iter())
    }
}

/// The rule for tool calls in a reply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "an adapter has to encode every choice")]
pub enum ToolChoice {
    /// The model may call tools.
    #[default]
    Auto,
    /// The model must not call a tool and must answer with text.
    None,
    /// The model must call at least one tool.
    Required,
    /// The model must call the tool with this name.
    Tool(ToolName),
}

/// The required format of a reply text.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "an adapter has to encode every format")]
pub enum ResponseFormat {
    /// Free text, without a required format.
    #[default]
    Text,
    /// Any JSON object.
    JsonObject,
    /// A JSON value that is valid for `schema`.
    JsonSchema {
        /// The name of the schema. OpenAI requires a name that matches `^[A-Za-z0-9_-]{1,64}$`.
        name: ToolName,
        /// The schema of the reply text.
        schema: Schema,
    },
}

/// Sampling and length settings for a reply. If a field is unset, the default of the server
/// applies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChatSettings {
    /// The sampling temperature. A temperature of 0 selects greedy decoding.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// The threshold for nucleus sampling, in (0, 1]. The sampler considers only the smallest set
    /// of most likely tokens with a cumulative probability of at least this value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// The maximum number of tokens in the reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// Stop sequences. The reply ends before the first stop sequence that the model generates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// The seed of the sampler. If the server supports seeds, equal requests with the same seed
    /// usually get the same reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// `true` allows several tool calls in one reply, `false` forbids them. `None` selects the
    /// default of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel_tool_calls: Option<bool>,
}
