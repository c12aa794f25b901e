//! Stored runs, and their owners.

use std::sync::Arc;

use haft_core::{Message, Timestamp, Transcript, usage::Usage};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The status of a stored run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunStatus {
    /// A process drives the run, or will continue it.
    Active,
    /// The run waits for decisions.
    Suspended,
    /// The run has its answer.
    Finished,
    /// The run ended with an error.
    Failed,
    /// The run was cancelled.
    Cancelled,
}

/// A new run of a session.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct NewRun {
    /// The id, unique for its tenant.
    pub id: String,
    /// The new messages of the user, which are appended to the log.
    pub messages: Vec<Arc<Message>>,
    /// The state of the run, for example a serialized `haft_react::run::DetachedRun`.
    pub state: Value,
    /// The number of entries that the log must have. `None` starts the run after any log.
    pub expected: Option<u64>,
    /// `true` if the conversation of the run does not begin with the earlier conversation.
    pub is_fresh: bool,
    /// The request that starts the run.
    pub request: Option<RequestKey>,
    /// The first events of the run.
    pub events: Vec<Value>,
}

/// The identity of a request that a client may repeat, because it has not received the response.
/// A request is handled once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestKey {
    /// The id that the client has chosen, unique for its tenant. It is known as long as the run.
    pub id: String,
    /// A hash of the content. The same id with another hash is an error.
    pub fingerprint: String,
}

/// A run without its state and its conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunSummary {
    /// The id.
    pub id: String,
    /// The id of the session.
    pub session: String,
    /// The status.
    pub status: RunStatus,
    /// The tokens and the cost.
    pub usage: Usage,
    /// The position of the first entry that the run can have.
    pub first_entry: u64,
    /// The number of the first event that the run can have.
    pub first_event: u64,
    /// The time of the creation.
    pub created_at: Timestamp,
    /// The time of the last write.
    pub updated_at: Timestamp,
}

/// A stored run.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct StoredRun {
    /// The id.
    pub id: String,
    /// The id of the session.
    pub session: String,
    /// The status.
    pub status: RunStatus,
    /// The last saved state.
    pub state: Value,
    /// The tokens and the cost.
    pub usage: Usage,
    /// The conversation of the run: the earlier conversation as it was when the run began, and the
    /// messages of the run. Messages that other writers have appended since then are not included.
    pub transcript: Transcript,
    /// The time of the creation.
    pub created_at: Timestamp,
    /// The time of the last write.
    pub updated_at: Timestamp,
}

/// The ownership of a run by one process, for a limited time. Only the last owner can write: each
/// acquisition has a token of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lease {
    /// The tenant of the run.
    pub tenant: String,
    /// The id of the session.
    pub session: String,
    /// The id of the run.
    pub run: String,
    /// The token of this acquisition.
    pub token: String,
    /// The end of the lease. [`renew`](crate::SessionStore::renew) moves it.
    pub until: Timestamp,
}

/// A write to a run. It is stored as a whole or not at all.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RunUpdate {
    /// The new messages of the run, which are appended to the log.
    pub messages: Vec<Arc<Message>>,
    /// The new state. `None` keeps the state.
    pub state: Option<Value>,
    /// The new status. `None` keeps the status. A run that is suspended or over has no owner.
    pub status: Option<RunStatus>,
    /// The tokens and the cost of the run so far. `None` keeps them.
    pub usage: Option<Usage>,
    /// New events of the run, which are appended to the events of its session.
    pub events: Vec<Value>,
    /// `true` if this process gives up an active run. Another process can acquire it at once.
    pub is_released: bool,
    /// The request that the update is a part of.
    pub request: Option<RequestKey>,
}

impl NewRun {
    /// Creates a run with the state `state` and new messages of the user.
    pub fn new(id: impl Into<String>, state: Value, messages: Vec<Arc<Message>>) -> Self {
        Self { id: id.into(), messages, state, ..Self::default() }
    }

    /// Requires that the log has `entries` entries, those that the run knows. If another writer was
    /// faster, the start fails with [`Conflict`](crate::StoreError::Conflict).
    #[must_use]
    pub fn after(mut self, entries: u64) -> Self {
        self.expected = Some(entries);
        self
    }

    /// Sets the request that starts the run. If the store knows it, the start fails with
    /// [`Repeated`](crate::StoreError::Repeated).
    #[must_use]
    pub fn of_request(mut self, request: impl Into<Option<RequestKey>>) -> Self {
        self.request = request.into();
        self
    }

    /// Appends one of the first events of the run.
    #[must_use]
    pub fn with_event(mut self, event: Value) -> Self {
        self.events.push(event);
        self
    }

    /// Begins the conversation of the run with its own messages.
    #[must_use]
    pub fn fresh(mut self) -> Self {
        self.is_fresh = true;
        self
    }
}

impl RunUpdate {
    /// Creates an update with the state `state` and new messages.
    pub fn new(state: Value, messages: Vec<Arc<Message>>) -> Self {
        Self { messages, state: Some(state), ..Self::default() }
    }

    /// Appends an event of the run.
    #[must_use]
    pub fn with_event(mut self, event: Value) -> Self {
        self.events.push(event);
        self
    }

    /// Sets the request that the update is a part of. If the store knows it, the write fails with
    /// [`Repeated`](crate::StoreError::Repeated).
    #[must_use]
    pub fn of_request(mut self, request: impl Into<Option<RequestKey>>) -> Self {
        self.request = request.into();
        self
    }

    /// Gives up the active run after this write.
    #[must_use]
    pub fn released(mut self) -> Self {
        self.is_released = true;
        self
    }

    /// Sets the status.
    #[must_use]
    pub fn with_status(mut self, status: RunStatus) -> Self {
        self.status = Some(status);
        self
    }

    /// Sets the tokens and the cost of the run so far.
    #[must_use]
    pub fn with_usage(mut self, usage: Usage) -> Self {
        self.usage = Some(usage);
        self
    }
}

impl RunStatus {
    /// Returns `true` if the run has ended.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Finished | Self::Failed | Self::Cancelled)
    }

    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Suspended => "suspended",
            Self::Finished => "finished",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}
