//! The log of a conversation.

use std::sync::Arc;

use haft_core::{Message, Timestamp, message::MessageBody};
use serde::{Deserialize, Serialize};

/// A stored conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Session {
    /// The id, unique for its tenant.
    pub id: String,
    /// The title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The number of entries in the log, which is the position of the last entry.
    pub entries: u64,
    /// The number of the last event. 0 if there is none.
    #[serde(default)]
    pub last_event: u64,
    /// The time of the creation.
    pub created_at: Timestamp,
    /// The time of the last write.
    pub updated_at: Timestamp,
}

/// An entry of the log of a conversation. The log is append-only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Entry {
    /// The position in the log, counted from 1.
    pub position: u64,
    /// The id of the run that has written the entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The content.
    #[serde(flatten)]
    pub body: EntryBody,
    /// The time of the write.
    pub created_at: Timestamp,
}

/// The content of an [`Entry`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EntryBody {
    /// A message of the conversation.
    Message(Arc<Message>),
    /// From here on, the conversation continues after the entry at this position. 0 is the start.
    /// The entries in between stay in the log.
    RewindTo(u64),
}

/// Entries to append to a log.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Append {
    /// The number of entries that the log must have. `None` appends to any log: the entries do not
    /// depend on what was said before.
    pub expected: Option<u64>,
    /// The new entries.
    pub entries: Vec<EntryBody>,
}

impl Append {
    /// Appends `messages` to a log of any length.
    pub fn messages<M: Into<Arc<Message>>>(messages: impl IntoIterator<Item = M>) -> Self {
        let entries = messages.into_iter().map(|message| EntryBody::Message(message.into())).collect();
        Self { expected: None, entries }
    }

    /// Requires that the log has `entries` entries. If another writer was faster, the append fails
    /// with [`Conflict`](crate::StoreError::Conflict).
    #[must_use]
    pub fn after(mut self, entries: u64) -> Self {
        self.expected = Some(entries);
        self
    }
}

impl Entry {
    /// Returns the message. `None` for other entries.
    pub fn message(&self) -> Option<&Arc<Message>> {
        match &self.body {
            EntryBody::Message(message) => Some(message),
            EntryBody::RewindTo(_) => None,
        }
    }

    /// Returns `true` for a tool result, and for a reply that only calls tools.
    pub fn is_tool_traffic(&self) -> bool {
        match self.message().map(|message| message.body()) {
            Some(MessageBody::Tool(_)) => true,
            Some(MessageBody::Assistant(reply)) => {
                !reply.tool_calls.is_empty() && reply.text().trim().is_empty()
            }
            _ => false,
        }
    }
}
