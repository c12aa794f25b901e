use std::time::Duration;

use async_trait::async_trait;
use haft_core::{
    Timestamp,
    call::{Decision, Decisions},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Append, Conversation, Entry, EntryBody, Lease, NewRun, RequestKey, RunSummary, RunUpdate, Session,
    SessionKey, StoreError, StoredRun, conversation,
};

/// A store of conversations, runs and their events.
///
/// A write that has returned is on disk. A write that fails has no effect. Each method can be
/// called by many tasks and processes at once. [`conformance`](crate::conformance) has tests for
/// other implementations.
///
/// # Examples
///
/// ```
/// use haft_core::Message;
/// use haft_session::{Append, SessionKey, SessionStore, SqlStore, StoreError};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let folder = tempfile::tempdir()?;
/// let store = SqlStore::open_file(folder.path().join("haft.db")).await?;
/// let key = SessionKey::new("travel")?;
/// store.create(&key, Some("To Rome")).await?;
/// store.append(&key, Append::messages([Message::user("Book a flight.")])).await?;
///
/// let conversation = store.conversation(&key).await?;
/// assert_eq!(conversation.transcript.messages()[0].text(), "Book a flight.");
///
/// // A write that is based on an older state is a conflict.
/// let stale = Append::messages([Message::user("To Paris!")]).after(0);
/// let error = store.append(&key, stale).await.unwrap_err();
/// assert!(matches!(error, StoreError::Conflict { expected: 0, found: 1 }));
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[async_trait]
pub trait SessionStore: Send + Sync {
    /// Returns the session. Creates it with `title` if there is none.
    ///
    /// # Errors
    ///
    /// Fails if the store fails.
    async fn create(&self, key: &SessionKey, title: Option<&str>) -> Result<Session, StoreError>;

    /// Creates the session with `entries`, in one write.
    ///
    /// # Errors
    ///
    /// Fails with [`StoreError::SessionExists`] if there is a session `key`.
    async fn create_with(
        &self,
        key: &SessionKey,
        title: Option<&str>,
        entries: Vec<EntryBody>,
    ) -> Result<Session, StoreError>;

    /// Returns the session.
    ///
    /// # Errors
    ///
    /// Fails with [`StoreError::SessionNotFound`] if there is none.
    async fn session(&self, key: &SessionKey) -> Result<Session, StoreError>;

    /// Returns the sessions of `tenant`, those with the latest write first, at most `limit`. With
    /// `after`, the sessions after the one with this time of the last write and this id, which is
    /// the last one of the page before.
    ///
    /// # Errors
    ///
    /// Fails if the store fails.
    async fn sessions(
        &self,
        tenant: &str,
        after: Option<(Timestamp, &str)>,
        limit: u32,
    ) -> Result<Vec<Session>, StoreError>;

    /// Deletes the session with its log, runs and events. A session that does not exist is no
    /// error.
    ///
    /// # Errors
    ///
    /// Fails if the store fails.
    async fn delete(&self, key: &SessionKey) -> Result<(), StoreError>;

    /// Appends entries to the log, and returns its new number of entries.
    ///
    /// # Errors
    ///
    /// Fails with [`StoreError::SessionNotFound`], or with [`StoreError::Conflict`] if the log has
    /// other entries than [`Append::expected`].
    async fn append(&self, key: &SessionKey, append: Append) -> Result<u64, StoreError>;

    /// Returns the entries after the position `after`, in order, at most `limit`.
    ///
    /// # Errors
    ///
    /// Fails with [`StoreError::SessionNotFound`] if there is no session.
    async fn entries(&self, key: &SessionKey, after: u64, limit: u32) -> Result<Vec<Entry>, StoreError>;

    /// Starts a run, and makes this process its owner for the time `lease`.
    ///
    /// # Errors
    ///
    /// Fails with [`StoreError::Busy`] if the session has a run that is not over, and with
    /// [`StoreError::Repeated`] if the store knows the request.
    async fn start_run(&self, key: &SessionKey, run: NewRun, lease: Duration) -> Result<Lease, StoreError>;

    /// Returns a run.
    ///
    /// # Errors
    ///
    /// Fails with [`StoreError::RunNotFound`] if the tenant has no run with this id.
    async fn run(&self, tenant: &str, run: &str) -> Result<StoredRun, StoreError>;

    /// Returns the runs of the session, the latest first, at most `limit`.
    ///
    /// # Errors
    ///
    /// Fails with [`StoreError::SessionNotFound`] if there is no session.
    async fn runs(&self, key: &SessionKey, limit: u32) -> Result<Vec<RunSummary>, StoreError>;

    /// Returns a run without its state and its conversation.
    ///
    /// # Errors
    ///
    /// Fails with [`StoreError::RunNotFound`] if the tenant has no run with this id.
    async fn run_summary(&self, tenant: &str, run: &str) -> Result<RunSummary, StoreError>;

    /// Returns the entries that a run has written, in order.
    ///
    /// # Errors
    ///
    /// Fails with [`StoreError::RunNotFound`] if the tenant has no run with this id.
    async fn run_entries(&self, tenant: &str, run: &str) -> Result<Vec<Entry>, StoreError>;

    /// Returns the id of the run that `request` has started or sent a message to. `None` if the
    /// store does not know the request.
    ///
    /// # Errors
    ///
    /// Fails with [`StoreError::OtherRequest`] if the id belongs to another request.
    async fn handled_by(&self, tenant: &str, request: &RequestKey) -> Result<Option<String>, StoreError>;

    /// Returns the id of the run of the session that is not over.
    ///
    /// # Errors
    ///
    /// Fails with [`StoreError::SessionNotFound`] if there is no session.
    async fn active_run(&self, key: &SessionKey) -> Result<Option<String>, StoreError>;

    /// Returns the runs of all tenants that no process continues, as pairs of a tenant and an id, the
    /// oldest first, at most `limit`: active ones without an owner, because their processes have
    /// ended, and suspended ones with a decision since the last write of their state.
    ///
    /// # Errors
    ///
    /// Fails if the store fails.
    async fn abandoned_runs(&self, limit: u32) -> Result<Vec<(String, String)>, StoreError>;

    /// Makes this process the owner of a run for the time `lease`.
    ///
    /// # Errors
    ///
    /// Fails with [`StoreError::Owned`] if another process owns the run, and with
    /// [`StoreError::RunOver`] if it is over.
    async fn acquire(&self, tenant: &str, run: &str, lease: Duration) -> Result<Lease, StoreError>;

    /// Extends a lease to the time `lease` from now on.
    ///
    /// # Errors
    ///
    /// Fails with [`StoreError::LeaseLost`] if another process has acquired the run.
    async fn renew(&self, lease: &Lease, time: Duration) -> Result<Lease, StoreError>;

    /// Stores a step of a run. Returns the number of the last event of the session.
    ///
    /// # Errors
    ///
    /// Fails with [`StoreError::LeaseLost`] if another process has acquired the run, and with
    /// [`StoreError::Repeated`] if the store knows the request of the update.
    async fn save(&self, lease: &Lease, update: RunUpdate) -> Result<u64, StoreError>;

    /// Stores the decision about a call. The same decision again is no error.
    ///
    /// # Errors
    ///
    /// Fails with [`StoreError::OtherDecision`] if the call has another decision, and with
    /// [`StoreError::RunOver`] if the run is over.
    async fn decide(
        &self,
        tenant: &str,
        run: &str,
        call: &str,
        decision: &Decision,
    ) -> Result<(), StoreError>;

    /// Returns the decisions about the calls of a run, by call id.
    ///
    /// # Errors
    ///
    /// Fails with [`StoreError::RunNotFound`] if the tenant has no run with this id.
    async fn decisions(&self, tenant: &str, run: &str) -> Result<Decisions, StoreError>;

    /// Appends events of a run to the events of its session, and returns the number of the last
    /// one. Events are numbered from 1 for each session. The store keeps the latest ones, a bounded
    /// number and size.
    ///
    /// # Errors
    ///
    /// Fails with [`StoreError::SessionNotFound`] if there is no session.
    async fn append_events(&self, key: &SessionKey, run: &str, events: Vec<Value>)
    -> Result<u64, StoreError>;

    /// Returns the events of a session after the number `after`, in order, at most `limit`. With a
    /// `run`, only the events of this run.
    ///
    /// # Errors
    ///
    /// Fails with [`StoreError::SessionNotFound`] if there is no session, and with
    /// [`StoreError::EventsExpired`] if the store has deleted some of these events, or if `after` is
    /// after the last one: the number is from an earlier session with this id.
    async fn events(
        &self,
        key: &SessionKey,
        run: Option<&str>,
        after: u64,
        limit: u32,
    ) -> Result<Vec<StoredEvent>, StoreError>;

    /// Returns the messages of `tenant` with all words of `query`, the latest first, at most
    /// `limit`.
    ///
    /// # Errors
    ///
    /// Fails if the store fails.
    async fn search(&self, tenant: &str, query: &str, limit: u32) -> Result<Vec<SearchHit>, StoreError>;

    /// Returns the calls of each tool of `tenant`, by tool name.
    ///
    /// # Errors
    ///
    /// Fails if the store fails.
    async fn tool_stats(&self, tenant: &str) -> Result<Vec<ToolStats>, StoreError>;

    /// Deletes what `retention` does not keep. Returns the number of deleted sessions.
    ///
    /// # Errors
    ///
    /// Fails if the store fails.
    async fn prune(&self, retention: &Retention) -> Result<u64, StoreError>;

    /// Closes the connections. Later calls fail. Without this call, a file of SQLite has a second file
    /// beside it with the latest writes, and a copy of the first one alone lacks them.
    async fn close(&self) {}

    /// Returns the session and its conversation: the messages of the log without those that a
    /// rewind has skipped.
    ///
    /// # Errors
    ///
    /// Fails with [`StoreError::SessionNotFound`] if there is no session.
    async fn conversation(&self, key: &SessionKey) -> Result<Conversation, StoreError> {
        conversation::read(self, key).await
    }

    /// Copies the entries up to the position `until` to the new session `to`.
    ///
    /// # Errors
    ///
    /// Fails with [`StoreError::SessionExists`] if there is a session `to`.
    async fn fork(&self, key: &SessionKey, until: u64, to: &SessionKey) -> Result<Session, StoreError> {
        conversation::fork(self, key, until, to).await
    }
}

/// A stored event of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StoredEvent {
    /// The number in the session, counted from 1.
    pub number: u64,
    /// The id of the run.
    pub run: String,
    /// The event.
    pub event: Value,
    /// The time of the write.
    pub created_at: Timestamp,
}

/// A message found by [`SessionStore::search`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SearchHit {
    /// The id of the session.
    pub session: String,
    /// The entry with the message.
    pub entry: Entry,
}

/// The calls of a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolStats {
    /// The name of the tool.
    pub tool: String,
    /// The number of calls.
    pub calls: u64,
    /// The number of failed calls.
    pub failures: u64,
    /// The mean duration of a call, in milliseconds.
    pub mean_millis: u64,
    /// The longest duration of a call, in milliseconds.
    pub max_millis: u64,
}

/// What [`SessionStore::prune`] keeps. The default keeps everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retention {
    /// Deletes the sessions without a write for this time, except those with a run that is not
    /// over.
    pub sessions: Option<Duration>,
    /// Deletes the events that are older than this time.
    pub events: Option<Duration>,
}

impl Retention {
    /// Deletes sessions without a write for `time`.
    #[must_use]
    pub fn with_sessions(mut self, time: Duration) -> Self {
        self.sessions = Some(time);
        self
    }

    /// Deletes events that are older than `time`.
    #[must_use]
    pub fn with_events(mut self, time: Duration) -> Self {
        self.events = Some(time);
        self
    }
}
