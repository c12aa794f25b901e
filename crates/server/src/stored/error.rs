use haft_core::{agent::AgentError, call::DecisionError};
use haft_react::run::RunError;
use haft_session::StoreError;

/// An error of a [`StoredAgent`](crate::StoredAgent).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoredRunError {
    /// The store failed, or the write does not fit the stored state.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The agent rejected the input.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// The run does not accept the message.
    #[error(transparent)]
    Message(#[from] RunError),
    /// No call with this id waits for a decision.
    #[error("no call {call:?} of the run waits for a decision; waiting: {waiting}")]
    NotWaiting {
        /// The id of the call.
        call: String,
        /// The ids of the waiting calls, separated by commas.
        waiting: String,
    },
    /// The decision does not fit the call.
    #[error("the decision about the call {call:?} does not fit: {source}")]
    WrongDecision {
        /// The id of the call.
        call: String,
        /// The reason.
        source: DecisionError,
    },
    /// The run is driven by another process.
    #[error(
        "another process drives the run {run:?}: send the request there, or repeat it after {seconds} s if that \
         process has ended"
    )]
    Elsewhere {
        /// The id of the run.
        run: String,
        /// The seconds until the end of the lease, unless its owner renews it.
        seconds: i64,
    },
    /// This process is shutting down.
    #[error("the server is shutting down")]
    ShuttingDown,
    /// This process drives the maximum number of runs.
    #[error("too many runs are active: repeat the request later")]
    Overloaded,
}
