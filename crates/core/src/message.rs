//! Messages: immutable once made, shared by `Arc`.

mod provider_data;
mod transcript;

use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

pub use provider_data::ProviderData;
pub use transcript::{Transcript, View};

use crate::{
    Timestamp,
    call::{ToolCall, ToolResult},
    content::{Content, text_of},
    schema::memo::TypeMemo,
};

/// One message of a conversation.
///
/// # Examples
///
/// ```
/// use haft_core::Message;
///
/// let question = Message::user("What is 17 plus 25?");
/// assert_eq!(question.text(), "What is 17 plus 25?");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    body: MessageBody,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    created_at: Option<Timestamp>,
    /// In a box, as what is rare: a conversation has many messages.
    #[serde(default, deserialize_with = "notes", skip_serializing_if = "Option::is_none")]
    metadata: Option<Box<Map<String, Value>>>,
    #[serde(skip)]
    memo: TypeMemo,
}

/// Who says a message, and what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "an adapter has to encode every role")]
pub enum MessageBody {
    /// Instructions of the host program.
    System {
        /// The instructions.
        content: Vec<Content>,
    },
    /// What a person, or the program in its place, says.
    User {
        /// What is said.
        content: Vec<Content>,
    },
    /// What the model said.
    Assistant(AssistantMessage),
    /// The result of one call that the model asked for.
    Tool(Arc<ToolResult>),
}

/// What a model said: text, reasoning and calls, any of which may be absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AssistantMessage {
    /// The answer, or the words around the calls.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub content: Vec<Content>,
    /// What the model thought, where it says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// The calls that it asks for, in its order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// Why it declines to answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    /// What only its provider understands, and wants back with the message.
    #[serde(skip_serializing_if = "ProviderData::is_empty")]
    pub provider_data: ProviderData,
}

impl Message {
    /// Makes a message without time or metadata.
    pub fn new(body: MessageBody) -> Self {
        Self { body, created_at: None, metadata: None, memo: TypeMemo::default() }
    }

    /// Makes instructions.
    pub fn system(content: impl Into<Content>) -> Self {
        Self::new(MessageBody::System { content: vec![content.into()] })
    }

    /// Makes a message of a person.
    pub fn user(content: impl Into<Content>) -> Self {
        Self::new(MessageBody::User { content: vec![content.into()] })
    }

    /// Makes a message of a model.
    pub fn assistant(message: impl Into<AssistantMessage>) -> Self {
        Self::new(MessageBody::Assistant(message.into()))
    }

    /// Makes the message that tells a model the result of its call.
    pub fn tool(result: impl Into<Arc<ToolResult>>) -> Self {
        Self::new(MessageBody::Tool(result.into()))
    }

    /// Sets when the message was added to the conversation.
    #[must_use]
    pub fn at(mut self, time: Timestamp) -> Self {
        self.created_at = Some(time);
        self
    }

    /// Sets the free notes of the host program. Models never see them.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Map<String, Value>) -> Self {
        self.metadata = filled(metadata);
        self
    }

    /// Who says it, and what.
    pub fn body(&self) -> &MessageBody {
        &self.body
    }

    /// When it was added to the conversation, by the driver of the run.
    pub fn created_at(&self) -> Option<Timestamp> {
        self.created_at
    }

    /// The free notes of the host program.
    pub fn metadata(&self) -> &Map<String, Value> {
        static NONE: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
        self.metadata.as_deref().unwrap_or(&NONE)
    }

    /// One of the free notes of the host program. Costs next to nothing where there are none, as on most messages.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::Message;
    /// use serde_json::json;
    ///
    /// let notes = json!({"shop/seen": true}).as_object().cloned().unwrap_or_default();
    /// let message = Message::user("Hi").with_metadata(notes);
    /// assert_eq!(message.metadata_value("shop/seen"), Some(&json!(true)));
    /// assert_eq!(Message::user("Hi").metadata_value("shop/seen"), None);
    /// ```
    #[inline]
    pub fn metadata_value(&self, name: &str) -> Option<&Value> {
        self.metadata.as_ref()?.get(name)
    }

    /// The pieces of the message; for a result, those of its output.
    pub fn content(&self) -> &[Content] {
        match &self.body {
            MessageBody::System { content } | MessageBody::User { content } => content,
            MessageBody::Assistant(message) => &message.content,
            MessageBody::Tool(result) => result.output().map_or(&[], |output| &output.content),
        }
    }

    /// The pieces as text, joined by line breaks; for a result, what the model reads.
    pub fn text(&self) -> String {
        match &self.body {
            MessageBody::Tool(result) => result.model_text().into_owned(),
            _ => text_of(self.content()),
        }
    }

    /// The calls that this message asks for; none unless a model said it.
    pub fn tool_calls(&self) -> &[ToolCall] {
        match &self.body {
            MessageBody::Assistant(message) => &message.tool_calls,
            _ => &[],
        }
    }

    /// What an adapter made of this message, rendered at most once for the first adapter that asks.
    ///
    /// The slot holds one type: a second adapter with a type of its own renders each time.
    pub fn rendering<T: Send + Sync + 'static>(&self, render: impl FnOnce(&Self) -> T) -> Arc<T> {
        self.memo.get_or_insert_with(|| render(self))
    }
}

/// Notes, or nothing where there are none: with and without them a message is the same.
fn filled(notes: Map<String, Value>) -> Option<Box<Map<String, Value>>> {
    (!notes.is_empty()).then(|| Box::new(notes))
}

fn notes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<Map<String, Value>>>, D::Error> {
    Map::deserialize(deserializer).map(filled)
}

/// What a person says.
impl<T: Into<Content>> From<T> for Message {
    fn from(content: T) -> Self {
        Self::user(content)
    }
}

impl AssistantMessage {
    /// The pieces as text, joined by line breaks.
    pub fn text(&self) -> String {
        text_of(&self.content)
    }

    /// Whether the model said nothing at all.
    pub fn is_empty(&self) -> bool {
        self.tool_calls.is_empty() && self.refusal.is_none() && self.text().trim().is_empty()
    }
}

impl<T: Into<Content>> From<T> for AssistantMessage {
    fn from(content: T) -> Self {
        Self { content: vec![content.into()], ..Self::default() }
    }
}
