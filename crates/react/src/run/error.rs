use haft_core::{agent::AgentErrorKind, call::DecisionError};

use super::RunState;

/// An error caused by incorrect use of a [`Run`](super::Run), for example a reply reported while no
/// request is in flight. The run stays in the same state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// `next` was called before the reply to [`Effect::Chat`](super::Effect::Chat) was reported.
    #[error("a request is in progress: report the reply with `on_chat`, or after a load call `recover`")]
    RequestInProgress,
    /// `next` was called before the outcomes of all calls in [`Effect::Call`](super::Effect::Call)
    /// were reported. Contains the ids of the calls without an outcome, separated by commas.
    #[error("calls are in progress ({0}): report each with `on_result`, or after a load call `recover`")]
    CallsInProgress(String),
    /// `on_chat` was called, but no model request is in flight.
    #[error("`on_chat` was called, but no request is in progress")]
    NoRequestInProgress,
    /// `on_compact` was called, but the last effect was not
    /// [`Effect::Compact`](super::Effect::Compact).
    #[error("`on_compact` was called, but the last effect was not `Effect::Compact`")]
    NoCompactionInProgress,
    /// `on_check` was called, but the last effect was not [`Effect::Check`](super::Effect::Check).
    #[error("`on_check` was called, but the last effect was not `Effect::Check`")]
    NoCheckInProgress,
    /// `on_review` was called, but the last effect was not
    /// [`Effect::Review`](super::Effect::Review).
    #[error("`on_review` was called, but the last effect was not `Effect::Review`")]
    NoReviewInProgress,
    /// `on_input_check` was called with a check that is not the current
    /// [check](super::Run::input_check) of the run.
    #[error("`on_input_check` was called, but this check is not in progress")]
    NoInputCheckInProgress,
    /// A [`RunHead`](super::RunHead) was combined with a transcript of a different length, for
    /// example the transcript of another run.
    #[error("the head was saved with a transcript of {messages} messages, and this one has {found}")]
    OtherTranscript {
        /// The number of messages in the transcript when the [`RunHead`](super::RunHead) was
        /// created.
        messages: usize,
        /// The number of messages in the given transcript.
        found: usize,
    },
    /// An outcome was reported for a call that is not in progress. Contains the call id.
    #[error("there is a result for the call {0:?}, which is not in progress")]
    NotInProgress(String),
    /// A check was reported for a call that is not ready for execution. Contains the call id.
    #[error("there is a check of the call {0:?}, which is not ready: call `return_calls` first")]
    NotReady(String),
    /// A message was added to a run that has ended.
    #[error("the run is over")]
    Ended,
    /// A message was appended while the run was not at a step boundary. Contains the state of the
    /// run.
    #[error("messages can be appended at a step boundary only, and the run is in the state {0:?}")]
    NotAtBoundary(RunState),
    /// The added message is an assistant message or a tool result. Only user and system messages
    /// can be enqueued or appended.
    #[error("only messages of a user or the system can be added to a run in progress")]
    NotEnqueueable,
    /// The run already has the maximum number of undelivered messages. Contains this maximum.
    #[error("no more messages can be enqueued: {0} wait for their delivery")]
    TooManyMessages(usize),
    /// A decision was reported for a call that does not wait for one.
    #[error("there is a decision about the call {id:?}, which does not wait; waiting: {waiting}")]
    CallNotWaiting {
        /// The id of the call that the decision was reported for.
        id: String,
        /// The ids of the calls that wait for a decision, separated by commas, or `none` if no
        /// batch of calls is open. If a suspended tool is an agent, the list contains the ids of
        /// the waiting calls in the agent's run, and not the id of the call to the agent.
        waiting: String,
    },
    /// The reported decision does not fit the call, for example because an approval was reported
    /// for a call that waits for input.
    #[error("the decision about the call {id:?} does not fit: {source}")]
    WrongDecision {
        /// The id of the call that the decision was reported for.
        id: String,
        /// The reason why the decision does not fit.
        source: DecisionError,
    },
}

impl From<RunError> for AgentErrorKind {
    fn from(error: RunError) -> Self {
        Self::UnexpectedOutcome(error.to_string())
    }
}
