//! The state machine of a run: its states and all transitions between them.
//!
//! Only [`StateMachine`] assigns a state. [`ALLOWED_TRANSITIONS`] lists the allowed transitions.
//! Debug builds assert each transition, and a test compares the list with the diagram in
//! `docs/states.md`.

#[cfg(test)]
mod tests;

use std::mem;

use haft_core::{agent::StopReason, message::AssistantMessage, model::ToolChoice};
use serde::{Deserialize, Serialize};

use super::{
    Output,
    head::{is_auto, is_false},
};
use crate::{dialect::Reply, open_calls::OpenCalls};

pub(super) use super::request_purpose::RequestPurpose;

/// A state of a run, with the data that this state needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
pub(super) enum State {
    /// The run is at a step boundary. The next effect is
    /// [`Effect::Prepare`](super::Effect::Prepare).
    ReadyToRequest {
        #[serde(default, skip_serializing_if = "RequestPurpose::is_step")]
        purpose: RequestPurpose,
    },
    /// The driver prepares the inputs of the next request. The next call to `next` builds the
    /// request, unless messages are summarized first.
    Preparing {
        #[serde(default, skip_serializing_if = "RequestPurpose::is_step")]
        purpose: RequestPurpose,
    },
    /// The messages before the transcript index `until` are being summarized.
    Compacting {
        #[serde(default, skip_serializing_if = "RequestPurpose::is_step")]
        purpose: RequestPurpose,
        until: usize,
    },
    /// [`Effect::Chat`](super::Effect::Chat) was returned, and its reply is not reported yet.
    AwaitingReply(SentRequest),
    /// A reply was reported. The next call to `next` applies it.
    ReplyReceived { request: SentRequest, reply: Box<Reply> },
    /// A batch of calls is being executed.
    CallingTools(Batch),
    /// The run waits for decisions about the open calls of the batch. The next call to `next`
    /// resumes the calls that have a decision.
    Suspended(Batch),
    /// The driver decides about the next action after the calls of a reply. `results` is the
    /// transcript index of the first result. `output` is the answer if the review ends the run.
    ReviewingCalls {
        results: usize,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<Box<Output>>,
    },
    /// A stop tool succeeded and its result is the answer, or a call to `finish` beside other calls
    /// contains the answer. `result` is the transcript index of the result of the call, and
    /// `purpose` is the purpose of the request.
    StoppedByTool {
        result: usize,
        #[serde(default, skip_serializing_if = "RequestPurpose::is_step")]
        purpose: RequestPurpose,
    },
    /// An output is being validated by the driver.
    CheckingOutput {
        #[serde(default, skip_serializing_if = "RequestPurpose::is_step")]
        purpose: RequestPurpose,
        output: Box<Output>,
        /// The message that contains the output. It is not in the transcript yet. `None` if the
        /// output comes from calls.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<Box<AssistantMessage>>,
        /// The transcript indices of the messages that contain the output, if it comes from calls.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        sources: Vec<usize>,
    },
    /// A limit was reached, and the run has no answer: the reply to the final request was not
    /// accepted as an answer.
    LimitReached { purpose: RequestPurpose },
    /// The run has an answer. It continues only if enqueued messages wait for delivery.
    Finishing(UnbuiltAnswer),
    /// The run ended with an answer.
    Finished(UnbuiltAnswer),
    /// The run was cancelled.
    Cancelled,
}

/// The data of a sent model request that is needed to process its reply.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct SentRequest {
    #[serde(default, skip_serializing_if = "RequestPurpose::is_step")]
    pub(super) purpose: RequestPurpose,
    #[serde(default, skip_serializing_if = "is_auto")]
    pub(super) tool_choice: ToolChoice,
    /// `true` if a call to `finish` ends the steps without arguments, because the outputs are
    /// requested afterwards.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) has_bare_finish: bool,
    /// `true` if the dialect of the request has a [fallback](crate::Dialect::fallback).
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) has_fallback: bool,
}

/// A batch of open calls, made by the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Batch {
    pub(super) calls: OpenCalls,
    /// The purpose of the request that the model replied to.
    #[serde(default, skip_serializing_if = "RequestPurpose::is_step")]
    pub(super) purpose: RequestPurpose,
    /// `true` if the model wrote the calls as text.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) is_written: bool,
}

/// The answer of a run, before it is converted to a `RunAnswer`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct UnbuiltAnswer {
    pub(super) stop_reason: StopReason,
    /// The output of the run. `None` if the last message of the model is the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) output: Option<Box<Output>>,
}

/// The current state of a run, as a plain value without associated data.
///
/// See the [state diagram](https://github.com/haft-rs/haft/blob/main/crates/react/docs/states.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RunState {
    /// The run is at a step boundary. The next effect is
    /// [`Effect::Prepare`](super::Effect::Prepare).
    ReadyToRequest,
    /// The driver prepares the inputs of the next request.
    Preparing,
    /// A part of the conversation is being summarized.
    Compacting,
    /// A model request is in flight.
    AwaitingReply,
    /// A reply was reported. The next call to [`Run::next`](super::Run::next) applies it.
    ReplyReceived,
    /// Tool calls are being executed.
    CallingTools,
    /// The run waits for decisions about its open tool calls, such as approvals.
    Suspended,
    /// The driver [reviews](super::Effect::Review) the calls of a reply.
    ReviewingCalls,
    /// The result of a tool in [`stop_on`](super::RunConfig::stop_on) ends the run, or an answer
    /// that was given beside other calls.
    StoppedByTool,
    /// An output is being validated.
    CheckingOutput,
    /// A limit was reached, and the run has no answer: the reply to the final request was not
    /// accepted as an answer.
    LimitReached,
    /// The run has an answer, but enqueued messages may still continue it.
    Finishing,
    /// The run ended with an answer.
    Finished,
    /// The run was cancelled.
    Cancelled,
}

/// All allowed transitions between different states. Transitions to [`RunState::Cancelled`] are not
/// listed, since they are always allowed.
#[cfg(any(test, debug_assertions))]
pub(super) const ALLOWED_TRANSITIONS: &[(RunState, RunState)] = {
    use RunState::*;
    &[
        // Transitions up to the reply.
        (ReadyToRequest, Preparing),
        (ReadyToRequest, Finishing),
        (Preparing, ReadyToRequest),
        (Preparing, AwaitingReply),
        (Preparing, Compacting),
        (Compacting, ReadyToRequest),
        (AwaitingReply, ReplyReceived),
        (AwaitingReply, ReadyToRequest),
        (AwaitingReply, Preparing),
        (AwaitingReply, Compacting),
        (AwaitingReply, LimitReached),
        // Transitions when a reply is applied.
        (ReplyReceived, ReadyToRequest),
        (ReplyReceived, CallingTools),
        (ReplyReceived, CheckingOutput),
        (ReplyReceived, Finishing),
        (ReplyReceived, LimitReached),
        // Transitions during and after calls.
        (CallingTools, ReadyToRequest),
        (CallingTools, Suspended),
        (CallingTools, ReviewingCalls),
        (CallingTools, StoppedByTool),
        (Suspended, CallingTools),
        (Suspended, ReadyToRequest),
        (Suspended, StoppedByTool),
        (ReviewingCalls, ReadyToRequest),
        (ReviewingCalls, CheckingOutput),
        (ReviewingCalls, Finishing),
        (StoppedByTool, CheckingOutput),
        (StoppedByTool, Finishing),
        // Transitions at the end of the run.
        (CheckingOutput, ReadyToRequest),
        (CheckingOutput, Finishing),
        (CheckingOutput, LimitReached),
        (Finishing, ReadyToRequest),
        (Finishing, Finished),
        (LimitReached, ReadyToRequest),
        (LimitReached, Finishing),
    ]
};

/// The state machine: the current state, with one method per transition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct StateMachine {
    state: State,
    /// The name of the state before the current transition, if this transition has moved the data
    /// out of `state`. `None` at all other times.
    #[serde(skip)]
    previous: Option<RunState>,
}

impl Default for StateMachine {
    fn default() -> Self {
        Self { state: State::ReadyToRequest { purpose: RequestPurpose::Step }, previous: None }
    }
}

impl StateMachine {
    pub(super) fn state(&self) -> &State {
        &self.state
    }

    /// Returns the batch of calls whose results are not in the transcript yet. `None` if there is
    /// no such batch.
    pub(super) fn batch(&self) -> Option<&Batch> {
        match &self.state {
            State::CallingTools(batch) | State::Suspended(batch) => Some(batch),
            _ => None,
        }
    }

    pub(super) fn batch_mut(&mut self) -> Option<&mut Batch> {
        match &mut self.state {
            State::CallingTools(batch) | State::Suspended(batch) => Some(batch),
            _ => None,
        }
    }

    /// Returns the request whose reply is not applied yet. `None` if there is no such request.
    pub(super) fn sent_request(&self) -> Option<&SentRequest> {
        match &self.state {
            State::AwaitingReply(request) | State::ReplyReceived { request, .. } => Some(request),
            _ => None,
        }
    }

    /// Returns the purpose of the current or next model request.
    pub(super) fn purpose(&self) -> RequestPurpose {
        match &self.state {
            State::ReadyToRequest { purpose }
            | State::Preparing { purpose }
            | State::Compacting { purpose, .. }
            | State::AwaitingReply(SentRequest { purpose, .. })
            | State::ReplyReceived { request: SentRequest { purpose, .. }, .. }
            | State::CheckingOutput { purpose, .. }
            | State::LimitReached { purpose } => *purpose,
            _ => RequestPurpose::Step,
        }
    }

    /// `ReadyToRequest → Preparing`: the driver must prepare the inputs of a request.
    pub(super) fn prepare(&mut self) {
        self.enter(State::Preparing { purpose: self.purpose() });
    }

    /// `Preparing → ReadyToRequest`: the prepared inputs are out of date and must be prepared
    /// again.
    pub(super) fn discard_inputs(&mut self) {
        if let State::Preparing { purpose } = self.state {
            self.enter(State::ReadyToRequest { purpose });
        }
    }

    /// Sets the purpose of the next request to `purpose`, after a limit was reached. The run stays
    /// in the same state.
    pub(super) fn change_purpose(&mut self, purpose: RequestPurpose) {
        match &mut self.state {
            State::ReadyToRequest { purpose: current } | State::Preparing { purpose: current } => {
                *current = purpose;
            }
            _ => {}
        }
    }

    /// `Preparing → AwaitingReply`: a request is sent.
    pub(super) fn await_reply(&mut self, request: SentRequest) {
        self.enter(State::AwaitingReply(request));
    }

    /// `Preparing | AwaitingReply → Compacting`: the context is too long, so the messages before
    /// index `until` are summarized.
    pub(super) fn start_compaction(&mut self, until: usize) {
        self.enter(State::Compacting { purpose: self.purpose(), until });
    }

    /// `ReadyToRequest | LimitReached → Finishing`: an input guardrail blocked the input. The
    /// answer is the last message of the transcript.
    pub(super) fn block_input(&mut self) {
        self.enter(State::finishing(StopReason::Blocked, None));
    }

    /// `AwaitingReply | Compacting → ReadyToRequest`: the model request must be repeated, or the
    /// compaction has ended.
    pub(super) fn request_again(&mut self) {
        self.enter(State::ReadyToRequest { purpose: self.purpose() });
    }

    /// `AwaitingReply → ReplyReceived`: stores `reply` until the next call to `next`.
    pub(super) fn store_reply(&mut self, reply: Reply) {
        if let State::AwaitingReply(request) = &mut self.state {
            let request = mem::take(request);
            self.enter(State::ReplyReceived { request, reply: Box::new(reply) });
        }
    }

    /// Moves the request and its reply out of the state, or returns `None` if no reply was
    /// received. The caller must call [`finish_reply`](Self::finish_reply) next.
    pub(super) fn take_reply(&mut self) -> Option<(SentRequest, Reply)> {
        if let State::ReplyReceived { .. } = &self.state
            && let State::ReplyReceived { request, reply } = self.take()
        {
            return Some((request, *reply));
        }
        None
    }

    /// `ReplyReceived → ReadyToRequest | CallingTools | CheckingOutput | Finishing | LimitReached`:
    /// the reply was applied.
    pub(super) fn finish_reply(&mut self, next: State) {
        self.enter(next);
    }

    /// `AwaitingReply → ReadyToRequest | LimitReached`: the request failed, or its reply is broken.
    pub(super) fn reject_reply(&mut self, next: State) {
        self.enter(next);
    }

    /// `CallingTools → Suspended`: all calls without a result wait for decisions.
    pub(super) fn suspend(&mut self) {
        if let State::CallingTools(batch) = &mut self.state {
            let batch = batch.take();
            self.enter(State::Suspended(batch));
        }
    }

    /// `Suspended → CallingTools`: a decision arrived.
    pub(super) fn resume_calls(&mut self) {
        if let State::Suspended(batch) = &mut self.state {
            let batch = batch.take();
            self.enter(State::CallingTools(batch));
        }
    }

    /// Moves the batch of calls out of the state, or returns `None` if no batch is open. The caller
    /// must call [`finish_calls`](Self::finish_calls) next.
    pub(super) fn take_calls(&mut self) -> Option<Batch> {
        self.batch()?;
        match self.take() {
            State::CallingTools(batch) | State::Suspended(batch) => Some(batch),
            _ => None,
        }
    }

    /// `CallingTools | Suspended → ReadyToRequest | ReviewingCalls | StoppedByTool`: all calls have
    /// a result.
    pub(super) fn finish_calls(&mut self, next: State) {
        self.enter(next);
    }

    /// Stores `answer`, the answer from the review, until the next call to `next`.
    pub(super) fn store_review(&mut self, answer: Output) {
        if let State::ReviewingCalls { output, .. } = &mut self.state {
            *output = Some(Box::new(answer));
        }
    }

    /// `ReviewingCalls → ReadyToRequest`: the review continues the run.
    pub(super) fn continue_after_review(&mut self) {
        self.enter(State::ReadyToRequest { purpose: RequestPurpose::Step });
    }

    /// `ReviewingCalls | StoppedByTool → CheckingOutput | Finishing`: the run ends with the output
    /// of tools or of a review.
    pub(super) fn stop_with_output(&mut self, next: State) {
        self.enter(next);
    }

    /// Moves the purpose, the message and the sources of the output that is being validated out of
    /// the state. `None` if there is no such output. The caller must call
    /// [`finish_check`](Self::finish_check) next.
    pub(super) fn take_output(&mut self) -> Option<(RequestPurpose, Option<AssistantMessage>, Vec<usize>)> {
        if let State::CheckingOutput { .. } = &self.state
            && let State::CheckingOutput { purpose, message, sources, .. } = self.take()
        {
            return Some((purpose, message.map(|message| *message), sources));
        }
        None
    }

    /// `CheckingOutput → ReadyToRequest | Finishing | LimitReached`: the output was validated.
    pub(super) fn finish_check(&mut self, next: State) {
        self.enter(next);
    }

    /// `Finishing → ReadyToRequest`: enqueued messages continue the run.
    pub(super) fn continue_run(&mut self) {
        self.enter(State::ReadyToRequest { purpose: RequestPurpose::Step });
    }

    /// `Finishing → Finished`: no enqueued message continues the run.
    pub(super) fn finish(&mut self) {
        if let State::Finishing(_) = &self.state
            && let State::Finishing(answer) = self.take()
        {
            self.enter(State::Finished(answer));
        }
    }

    /// Any state `→ Cancelled`: the run was cancelled.
    pub(super) fn cancel(&mut self) {
        self.enter(State::Cancelled);
    }

    /// Removes the reached limit after the limits were changed: the current or next request is no
    /// longer the final request, and `LimitReached` becomes `ReadyToRequest`.
    pub(super) fn lift_limit(&mut self) {
        match &mut self.state {
            State::ReadyToRequest { purpose }
            | State::Preparing { purpose }
            | State::Compacting { purpose, .. }
            | State::AwaitingReply(SentRequest { purpose, .. })
            | State::ReplyReceived { request: SentRequest { purpose, .. }, .. }
            | State::CheckingOutput { purpose, .. } => *purpose = purpose.without_limit(),
            State::LimitReached { purpose } => {
                let purpose = purpose.without_limit();
                self.enter(State::ReadyToRequest { purpose });
            }
            _ => {}
        }
    }

    /// `ReadyToRequest | AwaitingReply → Preparing`: a new driver, which has already prepared the
    /// inputs, takes over. `Suspended → CallingTools`: the new driver executes the calls that
    /// already have a decision.
    pub(super) fn recover(&mut self) {
        match &self.state {
            State::ReadyToRequest { .. } => self.prepare(),
            State::AwaitingReply(SentRequest { purpose, .. }) => {
                self.enter(State::Preparing { purpose: *purpose });
            }
            State::Suspended(batch) if batch.calls.has_ready() => self.resume_calls(),
            _ => {}
        }
    }

    /// Removes and returns the state, and leaves [`State::Cancelled`] in its place. If a bug
    /// prevents the transition to the next state, the run stays cancelled.
    fn take(&mut self) -> State {
        self.previous = Some(self.state.run_state());
        mem::replace(&mut self.state, State::Cancelled)
    }

    fn enter(&mut self, next: State) {
        let from = self.previous.take().unwrap_or_else(|| self.state.run_state());
        #[cfg(debug_assertions)]
        {
            let (from, to) = (from, next.run_state());
            let is_allowed =
                to == RunState::Cancelled || from == to || ALLOWED_TRANSITIONS.contains(&(from, to));
            debug_assert!(is_allowed, "the run cannot go from {from:?} to {to:?}");
        }
        tracing::trace!(?from, to = ?next.run_state(), "run state");
        self.state = next;
    }
}

impl State {
    pub(super) fn run_state(&self) -> RunState {
        match self {
            Self::ReadyToRequest { .. } => RunState::ReadyToRequest,
            Self::Preparing { .. } => RunState::Preparing,
            Self::Compacting { .. } => RunState::Compacting,
            Self::AwaitingReply(_) => RunState::AwaitingReply,
            Self::ReplyReceived { .. } => RunState::ReplyReceived,
            Self::CallingTools(_) => RunState::CallingTools,
            Self::Suspended(_) => RunState::Suspended,
            Self::ReviewingCalls { .. } => RunState::ReviewingCalls,
            Self::StoppedByTool { .. } => RunState::StoppedByTool,
            Self::CheckingOutput { .. } => RunState::CheckingOutput,
            Self::LimitReached { .. } => RunState::LimitReached,
            Self::Finishing(_) => RunState::Finishing,
            Self::Finished(_) => RunState::Finished,
            Self::Cancelled => RunState::Cancelled,
        }
    }

    /// Creates the state of a run that has an answer. The answer is `output`, or the last message
    /// of the model if `output` is `None`.
    pub(super) fn finishing(stop_reason: StopReason, output: Option<Box<Output>>) -> Self {
        Self::Finishing(UnbuiltAnswer { stop_reason, output })
    }
}

impl Batch {
    fn take(&mut self) -> Self {
        let Self { purpose, is_written, .. } = *self;
        Self { calls: mem::take(&mut self.calls), purpose, is_written }
    }
}
