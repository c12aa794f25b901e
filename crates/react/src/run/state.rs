//! The states of a run, and the two functions that lead from each state to the next.
//!
//! [`Run::next`] leaves a state without an outcome, [`Run::apply`] with one. Both take the state
//! out of the run, and each arm of their `match` calls the function that returns the next state.
//! Only [`Run::cancel`], [`Run::recover`] and [`Run::set_limits`] also change the state. The data
//! of a state is in the state; data of the whole run is in [`RunData`](super::RunData).

use std::mem;

use haft_core::{
    RunEvent, Timestamp,
    agent::{AgentErrorKind, StopReason},
    message::AssistantMessage,
    model::ToolChoice,
    usage::Usage,
};
use serde::{Deserialize, Serialize};

use super::{
    Effect, HandoffCall, Outcome, PreparedRequest, Run, RunError, calls::OpenCalls, is_auto, is_false,
};
use crate::output::Output;

/// A state of a run, with the data that only this state needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", content = "data", rename_all = "snake_case")]
pub(super) enum State {
    /// The run is at a step boundary.
    Ready,
    /// The driver prepares the next request, or has prepared `request`.
    Preparing { request: Option<Request> },
    /// The request is sent.
    AwaitingReply(Request),
    /// Calls are executed.
    Calling(Batch),
    /// No call can be executed before a decision about another call.
    Suspended(Batch),
    /// The hooks judge data.
    Checking(Candidate),
    /// The messages before the transcript index `until` are summarized. `is_requested` is `true` if
    /// the effect was returned.
    Compacting { until: usize, is_requested: bool },
    /// Another agent takes over.
    HandingOff(HandoffCall),
    /// The run has ended.
    Ended(End),
}

/// The properties of a request that are needed to process its reply.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Request {
    #[serde(skip_serializing_if = "is_auto")]
    pub(super) tool_choice: ToolChoice,
    pub(super) has_tools: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub(super) has_bare_finish: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub(super) has_fallback: bool,
    /// The usage of the reply that the run has counted already.
    pub(super) counted: Usage,
}

/// The open calls of one reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Batch {
    pub(super) calls: OpenCalls,
    /// `true` if the model wrote the calls as text.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) is_written: bool,
}

/// Data that the hooks judge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Candidate {
    /// New messages of the user, by their transcript indices. `is_rejected` is `true` if a hook
    /// has ended the run because of them.
    Input {
        indices: Vec<usize>,
        #[serde(default, skip_serializing_if = "is_false")]
        is_rejected: bool,
    },
    /// Calls that are ready for execution.
    Calls(Batch),
    /// The results from the transcript index on, up to the next message of another kind.
    Results(usize),
    /// An answer.
    Answer(Answer),
}

/// An answer that is not accepted yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Answer {
    pub(super) output: Box<Output>,
    /// The message with the answer. It is not in the transcript yet. `None` if the answer comes
    /// from calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<Box<AssistantMessage>>,
    /// The transcript indices of the messages with the answer, if it comes from calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) sources: Vec<usize>,
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum End {
    /// The run has an answer: `output`, or the last message of the transcript.
    Answered {
        stop_reason: StopReason,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<Box<Output>>,
    },
    /// The reply to the final request after a limit was not an answer.
    LimitReached,
    /// The run was cancelled.
    Cancelled,
}

/// The current state of a run, without its data. See the [state
/// diagram](https://github.com/haft-rs/haft/blob/main/crates/react/docs/states.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum RunState {
    /// The run is at a step boundary.
    Ready,
    /// The next model request is prepared.
    Preparing,
    /// A model request is in flight.
    AwaitingReply,
    /// Tool calls are executed.
    Calling,
    /// The run waits for decisions about its open calls, such as approvals.
    Suspended,
    /// Hooks judge an input, calls, results or the answer.
    Checking,
    /// A part of the conversation is summarized.
    Compacting,
    /// Another agent takes over.
    HandingOff,
    /// The run has an answer, has reached a limit, or was cancelled.
    Ended,
}

/// The result of a transition: the next state, and the effect or the error for the driver. Without
/// an effect, [`Run::next`] continues from the next state.
#[must_use]
pub(super) struct Transition {
    pub(super) state: State,
    pub(super) result: Result<Option<Effect>, AgentErrorKind>,
}

impl State {
    /// Continues from this state.
    pub(super) fn go(self) -> Transition {
        Transition { state: self, result: Ok(None) }
    }

    /// Returns `effect` to the driver.
    pub(super) fn with(self, effect: Effect) -> Transition {
        Transition { state: self, result: Ok(Some(effect)) }
    }

    /// Returns `error` to the driver. The run stays usable.
    pub(super) fn fail(self, error: impl Into<AgentErrorKind>) -> Transition {
        Transition { state: self, result: Err(error.into()) }
    }

    pub(super) fn kind(&self) -> RunState {
        match self {
            Self::Ready => RunState::Ready,
            Self::Preparing { .. } => RunState::Preparing,
            Self::AwaitingReply(_) => RunState::AwaitingReply,
            Self::Calling(_) => RunState::Calling,
            Self::Suspended(_) => RunState::Suspended,
            Self::Checking(_) => RunState::Checking,
            Self::Compacting { .. } => RunState::Compacting,
            Self::HandingOff(_) => RunState::HandingOff,
            Self::Ended(_) => RunState::Ended,
        }
    }

    /// Returns the open calls. `None` if there are none.
    pub(super) fn batch(&self) -> Option<&Batch> {
        match self {
            Self::Calling(batch) | Self::Suspended(batch) | Self::Checking(Candidate::Calls(batch)) => {
                Some(batch)
            }
            _ => None,
        }
    }

    pub(super) fn batch_mut(&mut self) -> Option<&mut Batch> {
        match self {
            Self::Calling(batch) | Self::Suspended(batch) | Self::Checking(Candidate::Calls(batch)) => {
                Some(batch)
            }
            _ => None,
        }
    }

    /// Creates the state of a run with an answer: `output`, or the last message of the transcript.
    pub(super) fn answered(stop_reason: StopReason, output: Option<Box<Output>>) -> Self {
        Self::Ended(End::Answered { stop_reason, output })
    }
}

impl Run {
    /// Returns the next effect of the run.
    ///
    /// [`Effect::Chat`] and [`Effect::Call`] are returned once, the other effects until their
    /// outcome is applied. After [`Effect::Done`], the run continues only if a message is
    /// [enqueued](Self::enqueue).
    ///
    /// # Errors
    ///
    /// Fails if the run cannot continue, for example because of a limit. Fails with
    /// [`AgentErrorKind::UnexpectedOutcome`] if the outcome of [`Effect::Chat`] or of a call in
    /// [`Effect::Call`] is missing.
    pub fn next(&mut self, now: Timestamp) -> Result<Effect, AgentErrorKind> {
        self.data.clock.tick(now);
        loop {
            let state = self.take_state();
            let Transition { state, result } = match state {
                State::Ready => self.begin_step(),
                State::Preparing { request: None } => state.with(Effect::Prepare),
                State::Preparing { request: Some(request) } => self.send(request),
                State::AwaitingReply(_) => state.fail(RunError::RequestInProgress),
                State::Calling(batch) => self.continue_calls(batch),
                State::Suspended(batch) => self.resume_or_wait(batch),
                State::Checking(candidate) => self.request_check(candidate),
                State::Compacting { until, is_requested } => self.request_summary(until, is_requested),
                State::HandingOff(handoff) => {
                    State::HandingOff(handoff.clone()).with(Effect::Handoff(handoff))
                }
                State::Ended(end) => self.end_or_continue(end),
            };
            self.enter(state);
            if let Some(effect) = result? {
                return Ok(effect);
            }
        }
    }

    /// Applies `outcome`, an outcome of the last effect. `now` is the time of the outcome, and the
    /// creation time of its messages.
    ///
    /// # Errors
    ///
    /// Fails with [`AgentErrorKind::UnexpectedOutcome`] if the run does not wait for this outcome;
    /// the run is then unchanged. Fails with the error that ends the run, for example the error of
    /// the model or a limit. The run then remains valid: every call in its transcript has a result,
    /// and [`next`](Self::next) can be called again, for example after a limit was raised.
    pub fn apply(&mut self, outcome: Outcome, now: Timestamp) -> Result<(), AgentErrorKind> {
        self.data.clock.tick(now);
        let state = self.take_state();
        let Transition { state, result } = match (state, outcome) {
            (State::Preparing { request: None }, Outcome::Prepared(prepared)) => {
                self.accept_request(prepared)
            }
            (State::AwaitingReply(request), Outcome::Used(usage)) => self.count_usage(request, usage),
            (State::AwaitingReply(request), Outcome::Replied(Ok(reply))) => self.read_reply(request, *reply),
            (State::AwaitingReply(request), Outcome::Replied(Err(error))) => {
                self.handle_request_failure(&request, error)
            }
            (State::Calling(batch), Outcome::Called(called)) => self.record_call(batch, *called),
            (State::Calling(batch), Outcome::Pending(pending)) => self.suspend_call(batch, *pending),
            (
                state @ (State::Calling(_) | State::Suspended(_) | State::Checking(Candidate::Calls(_))),
                Outcome::Decided { id, decision },
            ) => self.decide(state, &id, decision),
            (State::Checking(candidate), Outcome::Checked(verdict)) => self.apply_check(candidate, verdict),
            (State::Compacting { until, is_requested: true }, Outcome::Compacted(summary)) => {
                self.apply_summary(until, summary)
            }
            (State::HandingOff(_), Outcome::HandedOff(next)) => self.hand_over(*next),
            (state, Outcome::Enqueued { message, delivery }) => self.add_message(state, *message, delivery),
            (state, Outcome::LimitReached(limit)) => self.abandon_effect(state, limit),
            (state, Outcome::Nested(nested)) => {
                self.count_nested(nested);
                state.go()
            }
            (state, Outcome::Judged(judgement)) => self.record_judgement(state, judgement),
            (state, Outcome::Entries(entries)) => {
                self.data.entries = entries.into();
                state.go()
            }
            (state, outcome) => {
                let error = RunError::Unexpected { outcome: outcome.name(), state: state.kind() };
                state.fail(error)
            }
        };
        self.enter(state);
        result.map(drop)
    }

    /// Returns the events since the last call of this method: results, suspended calls and rejected
    /// replies. They are not saved with the run.
    pub fn take_events(&mut self) -> Vec<RunEvent> {
        mem::take(&mut self.events)
    }

    /// Moves the state out of the run. The caller sets the next state, and does not call methods of
    /// the run that read the state.
    pub(super) fn take_state(&mut self) -> State {
        mem::replace(&mut self.data.state, State::Ended(End::Cancelled))
    }

    fn enter(&mut self, state: State) {
        tracing::trace!(state = ?state.kind(), "run state");
        self.data.state = state;
    }
}

impl From<PreparedRequest> for Request {
    fn from(prepared: PreparedRequest) -> Self {
        let PreparedRequest { tool_choice, has_tools, has_bare_finish, has_fallback, .. } = prepared;
        Self { tool_choice, has_tools, has_bare_finish, has_fallback, counted: Usage::default() }
    }
}
