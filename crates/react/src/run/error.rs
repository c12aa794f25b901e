use haft_core::{agent::AgentErrorKind, call::DecisionError, model::ModelError};

use super::RunState;

/// An error caused by incorrect use of a [`Run`](super::Run), for example a reply that is reported
/// while no request is in flight. The run stays in the same state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// `next` was called before the reply to [`Effect::Chat`](super::Effect::Chat) was reported.
    #[error("a request is in progress: apply its reply, or after a load call `recover`")]
    RequestInProgress,
    /// `next` was called before the outcomes of all calls in [`Effect::Call`](super::Effect::Call)
    /// were reported. Contains the ids of the calls without an outcome, separated by commas.
    #[error("calls are in progress ({0}): apply the outcome of each, or after a load call `recover`")]
    CallsInProgress(String),
    /// An outcome was applied that the run does not wait for.
    #[error("the outcome {outcome} does not fit a run in the state {state:?}")]
    Unexpected {
        /// The name of the outcome.
        outcome: &'static str,
        /// The state of the run.
        state: RunState,
    },
    /// Verdicts were applied for another [`Check`](super::Check) than the run requested.
    #[error("the verdicts are about other data than the run asked about")]
    OtherCheck,
    /// A [`DetachedRun`](super::DetachedRun) was combined with a transcript of a different length,
    /// for example the transcript of another run.
    #[error("the run was saved with a transcript of {messages} messages, and this one has {found}")]
    OtherTranscript {
        /// The number of messages in the transcript when the run was detached.
        messages: usize,
        /// The number of messages in the given transcript.
        found: usize,
    },
    /// An outcome was reported for a call that is not in progress. Contains the call id.
    #[error("there is an outcome of the call {0:?}, which is not in progress")]
    NotInProgress(String),
    /// A verdict was reported about a call that is not ready for execution. Contains the call id.
    #[error("there is a verdict about the call {0:?}, which is not ready for execution")]
    NotReady(String),
    /// A message was added to a run that was cancelled or whose driver has stopped.
    #[error("the run is over")]
    Ended,
    /// The added message is an assistant message or a tool result. Only user and system messages
    /// can be enqueued.
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
        /// The ids of the calls that wait for a decision, separated by commas, or `none`. If a
        /// suspended tool is an agent, the list contains the ids of the waiting calls in the
        /// agent's run, and not the id of the call to the agent.
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

/// Returns `true` if `error` means that the model replied, but the reply is empty, unreadable,
/// truncated, or was rejected by the server. The same request may succeed if it is repeated.
pub(super) fn is_broken_reply(error: &ModelError) -> bool {
    matches!(
        last_model_error(error),
        ModelError::EmptyResponse
            | ModelError::InvalidResponse(_)
            | ModelError::InvalidGeneration { .. }
            | ModelError::Truncated { .. }
    )
}

/// Returns the error of the last model if `error` is from a fallback that tried several models.
/// Returns other errors unchanged.
pub(super) fn last_model_error(error: &ModelError) -> &ModelError {
    match error {
        ModelError::AllFailed { failures } => {
            failures.last().map_or(error, |last| last_model_error(&last.error))
        }
        other => other,
    }
}
