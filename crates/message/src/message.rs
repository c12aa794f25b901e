//! Messages, transcripts and views. A [`Message`] is immutable and shared through an `Arc`.

mod provider_data;
mod transcript;

use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use haft_schema::memo::TypeMemo;

pub use crate::hosted::{Citation, HostedCall};
pub use provider_data::ProviderData;
pub use transcript::{Transcript, TranscriptView};

use crate::{
    Timestamp,
    call::{ToolCall, ToolResult},
    content::{Content, join_texts},
};

/// The metadata of a message, boxed because most messages have none.
type Metadata = Box<Map<String, Value>>;

/// A message in a conversation, with an optional timestamp and optional metadata set by the host
/// program.
///
/// # Examples
///
/// ```
/// use haft_message::Message;
///
/// let question = Message::user("What is 17 plus 25?");
/// assert_eq!(question.text(), "What is 17 plus 25?");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    body: MessageBody,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    created_at: Option<Timestamp>,
    #[serde(default, deserialize_with = "deserialize_metadata", skip_serializing_if = "Option::is_none")]
    metadata: Option<Metadata>,
    #[serde(skip)]
    memo: TypeMemo,
}

/// The role and the content of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "an adapter has to encode every role")]
pub enum MessageBody {
    /// Instructions from the host program.
    System {
        /// The content of the instructions.
        content: Vec<Content>,
    },
    /// Input from a person, or from a program that acts for a person.
    User {
        /// The content of the input.
        content: Vec<Content>,
    },
    /// A reply from the model.
    Assistant(AssistantMessage),
    /// The result of a tool call.
    Tool(Arc<ToolResult>),
}

/// A reply from a model. Text, reasoning and tool calls are all optional.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AssistantMessage {
    /// The answer, or the text that accompanies the tool calls.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub content: Vec<Content>,
    /// The reasoning of the model, if the provider returns it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// The requested tool calls, in the order of the reply.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// The model's explanation, if it declined to answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    /// The calls of hosted tools that the provider has executed, in the order of the reply.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosted_calls: Vec<HostedCall>,
    /// The sources that the answer cites.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub citations: Vec<Citation>,
    /// Opaque data from the provider. Later requests to the same provider send it back unchanged,
    /// together with this message.
    #[serde(skip_serializing_if = "ProviderData::is_empty")]
    pub provider_data: ProviderData,
}

impl Message {
    /// Creates a message without a timestamp and without metadata.
    pub fn new(body: MessageBody) -> Self {
        Self { body, created_at: None, metadata: None, memo: TypeMemo::default() }
    }

    /// Creates a system message with a single piece of content.
    pub fn system(content: impl Into<Content>) -> Self {
        Self::new(MessageBody::System { content: vec![content.into()] })
    }

    /// Creates a user message with a single piece of content.
    pub fn user(content: impl Into<Content>) -> Self {
        Self::new(MessageBody::User { content: vec![content.into()] })
    }

    /// Creates an assistant message from a reply or from its text.
    pub fn assistant(message: impl Into<AssistantMessage>) -> Self {
        Self::new(MessageBody::Assistant(message.into()))
    }

    /// Creates a tool message from the result of a call.
    pub fn tool(result: impl Into<Arc<ToolResult>>) -> Self {
        Self::new(MessageBody::Tool(result.into()))
    }

    /// Sets the time when the message was added to the conversation.
    #[must_use]
    pub fn with_created_at(mut self, time: Timestamp) -> Self {
        self.created_at = Some(time);
        self
    }

    /// Sets the metadata: values of the host program that are never sent to a model. Earlier
    /// metadata is replaced.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Map<String, Value>) -> Self {
        self.metadata = non_empty(metadata);
        self
    }

    /// Returns the role and the content of the message.
    pub fn body(&self) -> &MessageBody {
        &self.body
    }

    /// Returns the time when the message was added to the conversation, or `None` if it is unknown.
    /// Agents set the time of the messages that they add.
    pub fn created_at(&self) -> Option<Timestamp> {
        self.created_at
    }

    /// Returns the metadata set by the host program. The map is empty by default.
    pub fn metadata(&self) -> &Map<String, Value> {
        static NONE: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
        self.metadata.as_deref().unwrap_or(&NONE)
    }

    /// Returns the metadata value stored under `key`, or `None` if there is no value.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_message::Message;
    /// use serde_json::json;
    ///
    /// let metadata = json!({"shop/seen": true}).as_object().cloned().unwrap_or_default();
    /// let message = Message::user("Hi").with_metadata(metadata);
    /// assert_eq!(message.metadata_value("shop/seen"), Some(&json!(true)));
    /// assert_eq!(Message::user("Hi").metadata_value("shop/seen"), None);
    /// ```
    #[inline]
    pub fn metadata_value(&self, key: &str) -> Option<&Value> {
        self.metadata.as_ref()?.get(key)
    }

    /// Returns the content of the message. For a tool message, returns the content of the tool's
    /// output, or an empty slice if the call failed.
    pub fn content(&self) -> &[Content] {
        match &self.body {
            MessageBody::System { content } | MessageBody::User { content } => content,
            MessageBody::Assistant(message) => &message.content,
            MessageBody::Tool(result) => result.output().map_or(&[], |output| &output.content),
        }
    }

    /// Returns the text of all content pieces, joined with line breaks. For a tool message, returns
    /// the [text that is sent to the model](ToolResult::model_text): the output with its warnings,
    /// or the error message.
    pub fn text(&self) -> String {
        match &self.body {
            MessageBody::Tool(result) => result.model_text().into_owned(),
            _ => join_texts(self.content()),
        }
    }

    /// Returns the result of a tool call. `None` for other messages.
    pub fn tool_result(&self) -> Option<&ToolResult> {
        match &self.body {
            MessageBody::Tool(result) => Some(result),
            _ => None,
        }
    }

    /// Returns the tool calls of an assistant message. Empty for messages with other roles.
    pub fn tool_calls(&self) -> &[ToolCall] {
        match &self.body {
            MessageBody::Assistant(message) => &message.tool_calls,
            _ => &[],
        }
    }

    /// Returns a value derived from this message, such as its encoding for a provider. The first
    /// call computes the value with `compute`. Later calls return the cached value.
    ///
    /// The message caches one value per type `T`, for at most 8 types. Values of further types are
    /// computed at each call. A clone of the message starts with the cached values.
    pub fn memoize<T: Send + Sync + 'static>(&self, compute: impl FnOnce(&Self) -> T) -> Arc<T> {
        self.memo.get_or_insert_with(|| compute(self))
    }
}

/// Boxes `metadata`, or returns `None` if it is empty. A message with empty metadata therefore
/// equals a message without metadata.
fn non_empty(metadata: Map<String, Value>) -> Option<Metadata> {
    (!metadata.is_empty()).then(|| Box::new(metadata))
}

fn deserialize_metadata<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Metadata>, D::Error> {
    Map::deserialize(deserializer).map(non_empty)
}

/// Converts any content to a user message.
impl<T: Into<Content>> From<T> for Message {
    fn from(content: T) -> Self {
        Self::user(content)
    }
}

impl AssistantMessage {
    /// Returns the text of all content pieces, joined with line breaks. Reasoning and refusal are
    /// not included.
    pub fn text(&self) -> String {
        join_texts(&self.content)
    }

    /// Returns `true` if the message has no tool calls, no refusal, and no text except whitespace.
    /// Reasoning is ignored.
    pub fn is_empty(&self) -> bool {
        self.tool_calls.is_empty() && self.refusal.is_none() && self.text().trim().is_empty()
    }
}

impl<T: Into<Content>> From<T> for AssistantMessage {
    fn from(content: T) -> Self {
        Self { content: vec![content.into()], ..Self::default() }
    }
}
