//! The states of a run, and all transitions between them.
//!
//! [`Machine`] is the only code that assigns a state. [`TRANSITIONS`] lists the allowed pairs;
//! debug builds assert each transition, and a test compares the list with the diagram in the book.

#[cfg(test)]
mod tests;

use std::mem;

use haft_core::{
    agent::{Limit, StopReason},
    message::AssistantMessage,
    model::ToolChoice,
};
use serde::{Deserialize, Serialize};

use super::{Output, head::is_auto};
use crate::{dialect::Reply, open_calls::OpenCalls};

/// A state of a run, with its own data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
pub(super) enum State {
    /// At a step boundary, before [`Effect::Prepare`](super::Effect::Prepare).
    ReadyToRequest {
        #[serde(default, skip_serializing_if = "Purpose::is_step")]
        purpose: Purpose,
    },
    /// [`Effect::Prepare`](super::Effect::Prepare) was returned. The next call of `next` makes the
    /// request.
    Preparing {
        #[serde(default, skip_serializing_if = "Purpose::is_step")]
        purpose: Purpose,
    },
    /// The messages before index `until` are to be summarised.
    Compacting {
        #[serde(default, skip_serializing_if = "Purpose::is_step")]
        purpose: Purpose,
        until: usize,
    },
    /// A request was returned.
    AwaitingReply(Request),
    /// A reply was reported and is not applied yet.
    ReplyReceived { request: Request, reply: Box<Reply> },
    /// Calls are to be returned, or were returned and have no result yet.
    CallingTools(Batch),
    /// All calls without a result wait for a decision.
    Suspended(Batch),
    /// The result at this index of the transcript ends the run.
    StoppedByTool { result: usize },
    /// An output is to be validated.
    CheckingOutput {
        #[serde(default, skip_serializing_if = "Purpose::is_step")]
        purpose: Purpose,
        output: Box<Output>,
        /// The model's message, if the output comes from the model. Not in the transcript yet.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<Box<AssistantMessage>>,
    },
    /// The final request was made, and its reply was not an answer.
    LimitReached { purpose: Purpose },
    /// There is an answer. Enqueued messages continue the run.
    Finishing(Answer),
    /// The answer was returned.
    Finished(Answer),
    /// The run was cancelled.
    Cancelled,
}

/// The purpose of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Purpose {
    /// The next step: tool calls, or the answer.
    #[default]
    Step,
    /// The declared outputs, after the work is done
    /// ([`OutputStrategy::Extraction`](super::OutputStrategy::Extraction)).
    Outputs {
        /// The limit that made this the final request.
        limit: Option<Limit>,
    },
    /// The answer, since a limit was reached.
    FinalAnswer { limit: Limit },
}

/// A sent request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Request {
    #[serde(default, skip_serializing_if = "Purpose::is_step")]
    pub(super) purpose: Purpose,
    #[serde(default, skip_serializing_if = "is_auto")]
    pub(super) tool_choice: ToolChoice,
}

/// A batch of calls under way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Batch {
    pub(super) calls: OpenCalls,
    #[serde(default, skip_serializing_if = "CallSource::is_reply")]
    pub(super) source: CallSource,
}

/// The origin of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CallSource {
    /// A reply of the model.
    #[default]
    Reply,
    /// The host, with [`Run::add_calls`](super::Run::add_calls).
    Added { then: AfterCalls },
}

/// The continuation after added calls.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AfterCalls {
    /// A request.
    Request(Purpose),
    /// The end of the run, with the result at this index of the transcript.
    Stop { result: usize },
}

/// The answer of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Answer {
    pub(super) stop_reason: StopReason,
    /// The output, if it differs from the last message of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) output: Option<Box<Output>>,
}

/// The name of a run's state.
///
/// The [book](https://github.com/haft-rs/haft/blob/main/docs/src/how-a-run-works.md) has the state
/// diagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RunState {
    /// At a step boundary: the next effect is [`Effect::Prepare`](super::Effect::Prepare).
    ReadyToRequest,
    /// The inputs of the next request are being prepared.
    Preparing,
    /// A part of the conversation is being summarised.
    Compacting,
    /// A request is in flight.
    AwaitingReply,
    /// A reply was reported. The next step applies it.
    ReplyReceived,
    /// Tool calls are being executed.
    CallingTools,
    /// Tool calls wait for decisions.
    Suspended,
    /// The result of a tool ends the run.
    StoppedByTool,
    /// An output is being validated.
    CheckingOutput,
    /// A limit was reached, and the final request gave no answer.
    LimitReached,
    /// There is an answer, unless an enqueued message continues the run.
    Finishing,
    /// The run ended with an answer.
    Finished,
    /// The run was cancelled.
    Cancelled,
}

/// All transitions between different states, except to [`RunState::Cancelled`], which every state
/// allows.
#[cfg(any(test, debug_assertions))]
pub(super) const TRANSITIONS: &[(RunState, RunState)] = {
    use RunState::*;
    &[
        // The request.
        (ReadyToRequest, Preparing),
        (ReadyToRequest, CallingTools),
        (ReadyToRequest, LimitReached),
        (Preparing, ReadyToRequest),
        (Preparing, CallingTools),
        (Preparing, AwaitingReply),
        (Preparing, Compacting),
        (Compacting, ReadyToRequest),
        (AwaitingReply, ReplyReceived),
        (AwaitingReply, ReadyToRequest),
        (AwaitingReply, Preparing),
        (AwaitingReply, Compacting),
        (AwaitingReply, LimitReached),
        // The reply.
        (ReplyReceived, ReadyToRequest),
        (ReplyReceived, CallingTools),
        (ReplyReceived, CheckingOutput),
        (ReplyReceived, Finishing),
        (ReplyReceived, LimitReached),
        // Calls.
        (CallingTools, ReadyToRequest),
        (CallingTools, Suspended),
        (CallingTools, StoppedByTool),
        (Suspended, CallingTools),
        (Suspended, ReadyToRequest),
        (Suspended, StoppedByTool),
        (StoppedByTool, CallingTools),
        (StoppedByTool, CheckingOutput),
        (StoppedByTool, Finishing),
        // The end.
        (CheckingOutput, ReadyToRequest),
        (CheckingOutput, Finishing),
        (CheckingOutput, LimitReached),
        (Finishing, ReadyToRequest),
        (Finishing, Finished),
        (LimitReached, ReadyToRequest),
    ]
};

/// The current state. Its methods are the transitions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Machine {
    state: State,
    /// The state before the current transition, while its data is moved out.
    #[serde(skip)]
    taken: Option<RunState>,
}

impl Default for Machine {
    fn default() -> Self {
        Self { state: State::ReadyToRequest { purpose: Purpose::Step }, taken: None }
    }
}

impl Machine {
    pub(super) fn state(&self) -> &State {
        &self.state
    }

    /// The calls without a result in the transcript.
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

    /// The purpose of the current or next request.
    pub(super) fn purpose(&self) -> Purpose {
        match &self.state {
            State::ReadyToRequest { purpose }
            | State::Preparing { purpose }
            | State::Compacting { purpose, .. }
            | State::AwaitingReply(Request { purpose, .. })
            | State::ReplyReceived { request: Request { purpose, .. }, .. }
            | State::CallingTools(Batch {
                source: CallSource::Added { then: AfterCalls::Request(purpose) },
                ..
            })
            | State::CheckingOutput { purpose, .. }
            | State::LimitReached { purpose } => *purpose,
            _ => Purpose::Step,
        }
    }

    /// `ReadyToRequest → Preparing`: the driver prepares the inputs of a request.
    pub(super) fn prepare(&mut self) {
        self.enter(State::Preparing { purpose: self.purpose() });
    }

    /// `Preparing → ReadyToRequest`: the inputs are out of date.
    pub(super) fn discard_inputs(&mut self) {
        if let State::Preparing { purpose } = self.state {
            self.enter(State::ReadyToRequest { purpose });
        }
    }

    /// Changes the purpose of the next request, since a limit was reached. The state stays the
    /// same.
    pub(super) fn change_purpose(&mut self, purpose: Purpose) {
        match &mut self.state {
            State::ReadyToRequest { purpose: current } | State::Preparing { purpose: current } => {
                *current = purpose;
            }
            _ => {}
        }
    }

    /// `ReadyToRequest → LimitReached`: added calls exceeded a limit after the final request.
    pub(super) fn exhaust(&mut self) {
        self.enter(State::LimitReached { purpose: self.purpose() });
    }

    /// `Preparing → AwaitingReply`: a request is made.
    pub(super) fn send(&mut self, tool_choice: ToolChoice) {
        self.enter(State::AwaitingReply(Request { purpose: self.purpose(), tool_choice }));
    }

    /// `Preparing | AwaitingReply → Compacting`: the context is too long.
    pub(super) fn compact(&mut self, until: usize) {
        self.enter(State::Compacting { purpose: self.purpose(), until });
    }

    /// `AwaitingReply | Compacting → ReadyToRequest`: the request failed, or the summary is done.
    pub(super) fn request_again(&mut self) {
        self.enter(State::ReadyToRequest { purpose: self.purpose() });
    }

    /// `AwaitingReply → ReplyReceived`.
    pub(super) fn receive(&mut self, reply: Reply) {
        if let State::AwaitingReply(request) = &mut self.state {
            let request = mem::take(request);
            self.enter(State::ReplyReceived { request, reply: Box::new(reply) });
        }
    }

    /// Takes the reply. [`finish_reply`](Self::finish_reply) must follow.
    pub(super) fn take_reply(&mut self) -> Option<(Request, Reply)> {
        match &self.state {
            State::ReplyReceived { .. } => match self.take() {
                State::ReplyReceived { request, reply } => Some((request, *reply)),
                _ => None,
            },
            _ => None,
        }
    }

    /// `ReplyReceived → ReadyToRequest | CallingTools | CheckingOutput | Finishing | LimitReached`.
    pub(super) fn finish_reply(&mut self, next: State) {
        self.enter(next);
    }

    /// `AwaitingReply → ReadyToRequest | LimitReached`: the reply could not be used.
    pub(super) fn reject_reply(&mut self, next: State) {
        self.enter(next);
    }

    /// `ReadyToRequest | Preparing | StoppedByTool → CallingTools`: added calls are executed.
    pub(super) fn call_added(&mut self, calls: OpenCalls) {
        let then = match &self.state {
            State::StoppedByTool { result } => AfterCalls::Stop { result: *result },
            _ => AfterCalls::Request(self.purpose()),
        };
        self.enter(State::CallingTools(Batch { calls, source: CallSource::Added { then } }));
    }

    /// `CallingTools → Suspended`: all open calls wait for decisions.
    pub(super) fn suspend(&mut self) {
        if let State::CallingTools(batch) = &mut self.state {
            let batch = batch.take();
            self.enter(State::Suspended(batch));
        }
    }

    /// `Suspended → CallingTools`: a decision was made.
    pub(super) fn resume_calls(&mut self) {
        if let State::Suspended(batch) = &mut self.state {
            let batch = batch.take();
            self.enter(State::CallingTools(batch));
        }
    }

    /// Takes the calls. [`finish_calls`](Self::finish_calls) must follow.
    pub(super) fn take_calls(&mut self) -> Option<Batch> {
        self.batch()?;
        match self.take() {
            State::CallingTools(batch) | State::Suspended(batch) => Some(batch),
            _ => None,
        }
    }

    /// `CallingTools | Suspended → ReadyToRequest | StoppedByTool`: all calls have a result.
    pub(super) fn finish_calls(&mut self, next: AfterCalls) {
        self.enter(match next {
            AfterCalls::Request(purpose) => State::ReadyToRequest { purpose },
            AfterCalls::Stop { result } => State::StoppedByTool { result },
        });
    }

    /// `StoppedByTool → CheckingOutput | Finishing`.
    pub(super) fn stop(&mut self, next: State) {
        self.enter(next);
    }

    /// Takes the output under validation. [`finish_check`](Self::finish_check) must follow.
    pub(super) fn take_output(&mut self) -> Option<(Purpose, Output, Option<AssistantMessage>)> {
        match &self.state {
            State::CheckingOutput { .. } => match self.take() {
                State::CheckingOutput { purpose, output, message } => {
                    Some((purpose, *output, message.map(|message| *message)))
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// `CheckingOutput → ReadyToRequest | Finishing | LimitReached`.
    pub(super) fn finish_check(&mut self, next: State) {
        self.enter(next);
    }

    /// `Finishing → ReadyToRequest`: enqueued messages continue the run.
    pub(super) fn go_on(&mut self) {
        self.enter(State::ReadyToRequest { purpose: Purpose::Step });
    }

    /// `Finishing → Finished`.
    pub(super) fn finish(&mut self) {
        if let State::Finishing(_) = &self.state
            && let State::Finishing(answer) = self.take()
        {
            self.enter(State::Finished(answer));
        }
    }

    /// Any state `→ Cancelled`.
    pub(super) fn cancel(&mut self) {
        self.enter(State::Cancelled);
    }

    /// `LimitReached → ReadyToRequest`, and requests are no longer the last one: the limits were
    /// changed.
    pub(super) fn lift_limit(&mut self) {
        match &mut self.state {
            State::ReadyToRequest { purpose }
            | State::Preparing { purpose }
            | State::Compacting { purpose, .. }
            | State::AwaitingReply(Request { purpose, .. })
            | State::ReplyReceived { request: Request { purpose, .. }, .. }
            | State::CallingTools(Batch {
                source: CallSource::Added { then: AfterCalls::Request(purpose) },
                ..
            })
            | State::CheckingOutput { purpose, .. } => *purpose = purpose.without_limit(),
            State::LimitReached { purpose } => {
                let purpose = purpose.without_limit();
                self.enter(State::ReadyToRequest { purpose });
            }
            _ => {}
        }
    }

    /// `ReadyToRequest | AwaitingReply → Preparing`, `Suspended → CallingTools`: a driver takes
    /// over with fresh inputs.
    pub(super) fn recover(&mut self) {
        match &self.state {
            State::ReadyToRequest { .. } => self.prepare(),
            State::AwaitingReply(Request { purpose, .. }) => {
                self.enter(State::Preparing { purpose: *purpose });
            }
            State::Suspended(batch) if batch.calls.has_ready() => self.resume_calls(),
            _ => {}
        }
    }

    /// Takes the state, and leaves [`State::Cancelled`] in its place: if a bug does not set the
    /// next state, the run is over.
    fn take(&mut self) -> State {
        self.taken = Some(self.state.name());
        mem::replace(&mut self.state, State::Cancelled)
    }

    fn enter(&mut self, next: State) {
        let from = self.taken.take().unwrap_or_else(|| self.state.name());
        #[cfg(debug_assertions)]
        {
            let (from, to) = (from, next.name());
            let is_allowed = to == RunState::Cancelled || from == to || TRANSITIONS.contains(&(from, to));
            debug_assert!(is_allowed, "the run cannot go from {from:?} to {to:?}");
        }
        tracing::trace!(?from, to = ?next.name(), "run state");
        self.state = next;
    }
}

impl State {
    pub(super) fn name(&self) -> RunState {
        match self {
            Self::ReadyToRequest { .. } => RunState::ReadyToRequest,
            Self::Preparing { .. } => RunState::Preparing,
            Self::Compacting { .. } => RunState::Compacting,
            Self::AwaitingReply(_) => RunState::AwaitingReply,
            Self::ReplyReceived { .. } => RunState::ReplyReceived,
            Self::CallingTools(_) => RunState::CallingTools,
            Self::Suspended(_) => RunState::Suspended,
            Self::StoppedByTool { .. } => RunState::StoppedByTool,
            Self::CheckingOutput { .. } => RunState::CheckingOutput,
            Self::LimitReached { .. } => RunState::LimitReached,
            Self::Finishing(_) => RunState::Finishing,
            Self::Finished(_) => RunState::Finished,
            Self::Cancelled => RunState::Cancelled,
        }
    }

    /// The state that opens the calls of a reply.
    pub(super) fn calling(calls: OpenCalls) -> Self {
        Self::CallingTools(Batch { calls, source: CallSource::Reply })
    }

    /// The state of a run that ends with the last message of the model.
    pub(super) fn finishing(stop_reason: StopReason, output: Option<Box<Output>>) -> Self {
        Self::Finishing(Answer { stop_reason, output })
    }
}

impl Purpose {
    fn is_step(&self) -> bool {
        matches!(self, Self::Step)
    }

    /// Returns `true` if tool calls are not allowed.
    pub(super) fn must_answer(self) -> bool {
        !matches!(self, Self::Step)
    }

    /// The limit that made this the final request.
    pub(super) fn limit(self) -> Option<Limit> {
        match self {
            Self::Step => None,
            Self::Outputs { limit } => limit,
            Self::FinalAnswer { limit } => Some(limit),
        }
    }

    pub(super) fn with_limit(self, limit: Limit) -> Self {
        match self {
            Self::Outputs { .. } => Self::Outputs { limit: Some(limit) },
            Self::Step | Self::FinalAnswer { .. } => Self::FinalAnswer { limit },
        }
    }

    fn without_limit(self) -> Self {
        match self {
            Self::Outputs { .. } => Self::Outputs { limit: None },
            Self::Step | Self::FinalAnswer { .. } => Self::Step,
        }
    }
}

impl Batch {
    fn take(&mut self) -> Self {
        Self { calls: mem::take(&mut self.calls), source: self.source }
    }
}

impl CallSource {
    fn is_reply(&self) -> bool {
        matches!(self, Self::Reply)
    }
}
