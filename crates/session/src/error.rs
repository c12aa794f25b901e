use haft_core::{Timestamp, call::BoxError};

/// An error of a [`SessionStore`](crate::SessionStore).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The tenant has no session with this id.
    #[error("there is no session {0:?}")]
    SessionNotFound(String),
    /// The session exists already, and an import or a fork would overwrite it.
    #[error("the session {0:?} exists already")]
    SessionExists(String),
    /// The tenant has no run with this id.
    #[error("there is no run {0:?}")]
    RunNotFound(String),
    /// The log has other entries than the write was based on. Nothing was written.
    #[error("the conversation has moved: the write expects {expected} entries, and there are {found}")]
    Conflict {
        /// The number of entries that the write expects.
        expected: u64,
        /// The number of entries in the log.
        found: u64,
    },
    /// The session has a run that is not over. Contains the id of this run.
    #[error("the session has the active run {0:?}")]
    Busy(String),
    /// Another process owns the run.
    #[error("another process owns the run {run:?}")]
    Owned {
        /// The id of the run.
        run: String,
        /// The end of the lease, unless its owner renews it.
        until: Timestamp,
    },
    /// Another process has taken over the run, because the lease had ended. Nothing was written.
    #[error("another process has taken over the run {0:?}")]
    LeaseLost(String),
    /// The run is over, so it has no owner and accepts no decision. Contains the id of the run.
    #[error("the run {0:?} is over")]
    RunOver(String),
    /// The call has another decision already. A decision is never replaced.
    #[error("the call {call:?} has another decision already")]
    OtherDecision {
        /// The id of the call.
        call: String,
    },
    /// The request was handled before. Nothing was written.
    #[error("the request was handled before, by the run {run:?}")]
    Repeated {
        /// The id of the run that the request has started, or sent a message to.
        run: String,
    },
    /// The id of the request belongs to another request. Nothing was written.
    #[error("the id {0:?} belongs to another request")]
    OtherRequest(String),
    /// The oldest of the wanted events have been deleted.
    #[error("the events before the number {next} have been deleted")]
    EventsExpired {
        /// The number of the first event that can be read.
        next: u64,
    },
    /// The place has data of another program.
    #[error("{place} is not a database of haft: {reason}; nothing was changed")]
    Foreign {
        /// The file or the server.
        place: String,
        /// The reason.
        reason: String,
    },
    /// The place was written by a newer version of haft.
    #[error("{place} has format {found}, and this version of haft knows {known}; nothing was changed")]
    Newer {
        /// The file or the server.
        place: String,
        /// The format of the place.
        found: i64,
        /// The newest format that this version can read.
        known: i64,
    },
    /// The disk is full. Nothing of the write was stored.
    #[error("{0} is full: free some space, and repeat the write")]
    Full(String),
    /// The place cannot be opened or reached.
    #[error("{place} cannot be used")]
    Unavailable {
        /// The file or the server.
        place: String,
        /// The cause.
        source: BoxError,
    },
    /// A stored value cannot be read.
    #[error("the stored {what} cannot be read")]
    Unreadable {
        /// The kind of the value, such as `message`.
        what: &'static str,
        /// The cause.
        source: BoxError,
    },
    /// Another error of the database.
    #[error("the database failed")]
    Database(#[source] BoxError),
}
