use haft_core::{agent::AgentErrorKind, call::DecisionError};

use super::RunState;

/// Misuse of a run, such as an outcome without its effect. The run is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// `next` was called before the reply was reported.
    #[error("a request is under way: report the reply with `on_chat`, or after a load call `recover`")]
    RequestUnderWay,
    /// `next` was called before the results were reported.
    #[error("calls are under way ({0}): report each with `on_result`, or after a load call `recover`")]
    CallsUnderWay(String),
    /// `on_chat` without a request.
    #[error("`on_chat` was called, but no request is under way")]
    NoRequest,
    /// `on_compact` without `Effect::Compact`.
    #[error("`on_compact` was called, but the last effect was not `Effect::Compact`")]
    NoCompaction,
    /// `on_check` without `Effect::Check`.
    #[error("`on_check` was called, but the last effect was not `Effect::Check`")]
    NoCheck,
    /// A head with the transcript of another run, or of this run at another time.
    #[error("the head was saved with a transcript of {messages} messages, and this one has {found}")]
    OtherTranscript {
        /// Number of messages when the head was saved.
        messages: usize,
        /// Number of messages of this transcript.
        found: usize,
    },
    /// A result without a call under way.
    #[error("there is a result for the call {0:?}, which is not under way")]
    NotUnderWay(String),
    /// Calls or messages after the end of the run.
    #[error("the run is over")]
    Over,
    /// A message appended between step boundaries.
    #[error("messages can be appended at a step boundary only, and the run is in the state {0:?}")]
    NotAtBoundary(RunState),
    /// A message that would separate calls from their results.
    #[error("only messages of a user or the system can be added to a run under way")]
    NotEnqueueable,
    /// More enqueued messages than a run keeps.
    #[error("no more messages can be enqueued: {0} wait for their delivery")]
    TooManyMessages(usize),
    /// An added call without a unique id.
    #[error("the call {0:?} cannot be added: its id is empty or was used before")]
    DuplicateCallId(String),
    /// More added calls than a run executes.
    #[error("no more calls can be added: {0} is the maximum for one run")]
    TooManyCalls(usize),
    /// A decision for a call that is not waiting.
    #[error("there is a decision about the call {id:?}, which does not wait; waiting: {waiting}")]
    NotWaiting {
        /// The call id of the decision.
        id: String,
        /// The ids of the waiting calls; of a nested run, those of its inner calls.
        waiting: String,
    },
    /// A decision of another kind than the call waits for.
    #[error("the decision about the call {id:?} does not fit: {source}")]
    DecisionError {
        /// The call id of the decision.
        id: String,
        /// The reason.
        source: DecisionError,
    },
}

impl From<RunError> for AgentErrorKind {
    fn from(error: RunError) -> Self {
        Self::UnexpectedOutcome(error.to_string())
    }
}
