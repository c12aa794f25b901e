//! Calls of a reply, and the hand-off that can follow: the states `Calling`, `Suspended` and
//! `HandingOff`.

mod open_calls;

use std::{collections::BTreeMap, sync::Arc};

use haft_core::{
    Message, RunEvent, ToolCall, ToolResult,
    agent::AgentErrorKind,
    call::{FailureKind, PendingCall},
    schema::Repair,
};

use super::{
    CallBatch, Effect, FinishedCall, HandoffCall, NextAgent, ReadyCall, Run, RunConfig, RunError,
    data::Purpose,
    state::{Batch, Candidate, State, Transition},
    window::{Pressure, Window},
};
use crate::{
    hook::{Judgement, Verdict},
    transcript::{marks::handoff_message, repetition},
};
use open_calls::is_counted;

pub(crate) use open_calls::{OpenCalls, failure_result};

/// What follows a batch of calls.
enum AfterCalls {
    /// The next step.
    Step,
    /// The call at this position of the batch gives the answer: a call to `finish`, or to a stop
    /// tool.
    Answer(usize),
    Handoff(HandoffCall),
}

impl Run {
    /// `Calling`: returns the ready calls for a check or for execution, waits if all open calls
    /// wait for decisions, or ends the batch.
    pub(super) fn continue_calls(&mut self, mut batch: Batch) -> Transition {
        let in_progress: Vec<_> = batch.calls.in_progress().map(|call| call.id.as_str()).collect();
        if !in_progress.is_empty() {
            let error = RunError::CallsInProgress(in_progress.join(", "));
            return State::Calling(batch).fail(error);
        }
        if let Some(fatal) = batch.calls.fatal_result() {
            let (tool, message) = (fatal.name.clone(), fatal.model_text().into_owned());
            self.close_calls(batch, FailureKind::Cancelled, "not run: the run was stopped");
            return State::Ready.fail(AgentErrorKind::FatalTool { tool, message });
        }
        if let Some(limit) = self.reached_time_limit().filter(|_| batch.calls.has_ready()) {
            return self.deny_calls(batch, limit);
        }
        if !self.calls_to_check(&batch).is_empty() {
            return State::Checking(Candidate::Calls(batch)).go();
        }
        let mut ready = batch.calls.take_ready();
        if !ready.calls.is_empty() {
            self.limit_attempts(&batch, &mut ready);
            return State::Calling(batch).with(Effect::Call(ready));
        }
        let pending = batch.calls.pending_calls();
        if !pending.is_empty() {
            self.data.clock.stop();
            return State::Suspended(batch).with(Effect::Wait(pending));
        }
        self.finish_calls(batch)
    }

    /// `Suspended`: resumes the calls with a decision, or returns the waiting calls.
    pub(super) fn resume_or_wait(&mut self, mut batch: Batch) -> Transition {
        self.decide_remembered(&mut batch);
        if batch.calls.has_ready() {
            return State::Calling(batch).go();
        }
        self.data.clock.stop();
        let pending = batch.calls.pending_calls();
        State::Suspended(batch).with(Effect::Wait(pending))
    }

    /// Returns the ready calls that the hooks must judge before one of them is executed. Calls
    /// beyond the maximum of their tool are not judged, because they do not run.
    pub(super) fn calls_to_check(&self, batch: &Batch) -> Vec<ReadyCall> {
        if !self.data.config.checks.calls {
            return Vec::new();
        }
        let mut calls = CallBatch { calls: batch.calls.ready(), waiting: Vec::new() };
        self.limit_attempts(batch, &mut calls);
        calls.calls.retain(|ready| !ready.is_checked && ready.denied.is_none());
        calls.calls
    }

    /// Adds the failed attempts of the tools to the calls in `ready`, a part of `batch`, and denies
    /// the calls beyond the [maximum number](haft_core::tool::ToolPolicy::max_calls) of calls to a
    /// tool. A resumed call is permitted, because it was counted before its suspension.
    fn limit_attempts(&self, batch: &Batch, ready: &mut CallBatch) {
        let counts = &self.data.counts;
        let mut permitted = BTreeMap::new();
        for ReadyCall { call, resumed, failed_attempts, denied, tool, .. } in &mut ready.calls {
            *failed_attempts = counts.failed_attempts.get(&call.name).copied().unwrap_or_default();
            let Some(maximum) = tool.max_calls.filter(|_| resumed.is_none()) else { continue };
            let finished = counts.limited_calls.get(&call.name).copied().unwrap_or_default();
            let started = finished.saturating_add(batch.calls.count_started(&call.name));
            let new = permitted.entry(call.name.clone()).or_insert(0_u32);
            if started.saturating_add(*new) < maximum {
                *new += 1;
            } else {
                *denied = Some(denial(maximum));
            }
        }
    }

    /// `Calling`: records the result of a call. The recorded result has the id and the name of the
    /// call, a warning if the model must not repeat the call again with an equal result, and a
    /// final failure in place of a retry request if the retry budget of the tool is exhausted.
    pub(super) fn record_call(&mut self, mut batch: Batch, finished: FinishedCall) -> Transition {
        let FinishedCall { id, result, judgement } = finished;
        match self.finish_call(&mut batch, &id, result) {
            Ok(result) => self.events.push(RunEvent::CallFinished { result }),
            Err(error) => return State::Calling(batch).fail(error),
        }
        self.record_judgement(State::Calling(batch), judgement)
    }

    /// Records a judgement of hooks. If a hook ends the run, closes the calls that are executed.
    pub(super) fn record_judgement(&mut self, state: State, judgement: Judgement) -> Transition {
        let Verdict::End(_) = self.record_reports(judgement) else { return state.go() };
        let State::Calling(batch) = state else { return state.fail(self.guardrail_error()) };
        let why = "cancelled: a guardrail ended the run";
        self.close_calls(batch, FailureKind::Cancelled, why);
        State::Ready.fail(self.guardrail_error())
    }

    fn finish_call(
        &mut self,
        batch: &mut Batch,
        id: &str,
        mut result: ToolResult,
    ) -> Result<Arc<ToolResult>, RunError> {
        let repeated = self.data.counts.repeated_calls;
        let is_last = self.data.config.max_repeated_calls == Some(repeated);
        if is_last {
            self.update_history();
        }
        let (call, tool) = batch.calls.find_in_progress(id)?;
        (result.call_id, result.name) = (call.id.clone(), call.name.clone());
        let used = self.data.counts.failed_attempts.get(&call.name).map_or(0, |failed| failed.retries);
        repetition::limit_retries(&mut result, used, tool.retries);
        if is_last && !self.history.is_new_result(call, &result) {
            repetition::warn_of_repetition(&mut result, repeated);
        }
        if batch.is_written {
            result.repairs.insert(0, Repair::written_as_text());
        }
        batch.calls.finish(id, result).cloned()
    }

    /// `Calling`: records that a call waits for a decision.
    pub(super) fn suspend_call(&mut self, mut batch: Batch, pending: PendingCall) -> Transition {
        let event = RunEvent::CallPending { pending: Box::new(pending.clone()) };
        match batch.calls.suspend(&pending.call.id, pending.pending) {
            Ok(()) => {
                self.events.push(event);
                State::Calling(batch).go()
            }
            Err(error) => State::Calling(batch).fail(error),
        }
    }

    /// Records the results of a batch whose calls are all finished, and continues with the next
    /// step, a check of the results, the answer or a hand-off.
    fn finish_calls(&mut self, mut batch: Batch) -> Transition {
        batch.calls.accept_answer(self.data.clock.now);
        repetition::count_attempts(batch.calls.results(), &mut self.data.counts.failed_attempts);
        let first = self.transcript.len();
        match self.close_calls(batch, FailureKind::Cancelled, "cancelled") {
            State::Ready if self.data.config.checks.results => {
                State::Checking(Candidate::Results(first)).go()
            }
            State::Ready => {
                // If the answer of a stop tool is rejected, the rejection counts as consecutive.
                self.data.counts.rejected_replies = 0;
                State::Ready.go()
            }
            state => state.go(),
        }
    }

    /// Closes `batch`: each call without a result gets a failure with the kind `kind` and the
    /// message `why`, and the results are recorded. Returns the next state: the answer of the run
    /// if a stop tool succeeded or a call to `finish` gave it, a hand-off, or else the next step.
    pub(super) fn close_calls(&mut self, batch: Batch, kind: FailureKind, why: &str) -> State {
        let next = self.after_calls(&batch);
        let first = self.transcript.len();
        let counts = &mut self.data.counts;
        for result in batch.calls.limited_results().filter(|result| is_counted(result)) {
            *counts.limited_calls.entry(result.name.clone()).or_default() += 1;
        }
        let now = self.data.clock.now;
        let results = batch.calls.into_results(kind, why, now);
        self.transcript.extend(results.map(|result| Message::tool(result).with_created_at(now).into()));
        if let AfterCalls::Answer(position) = next {
            return self.end_with_result(first + position);
        }
        match next {
            AfterCalls::Handoff(handoff) => State::HandingOff(handoff),
            _ => State::Ready,
        }
    }

    fn after_calls(&self, batch: &Batch) -> AfterCalls {
        let (answers, config) = (&self.data.answer_calls, &self.data.config);
        let answer = batch.calls.position_of_success(|result| answers.contains(&result.call_id));
        let stop = || batch.calls.position_of_success(|result| config.stop_on.contains(&result.name));
        if let Some(position) = answer.or_else(stop) {
            return AfterCalls::Answer(position);
        }
        let is_handoff =
            |result: &&Arc<ToolResult>| result.is_success() && config.handoff_tools.contains(&result.name);
        match batch.calls.results().find(is_handoff) {
            Some(result) => AfterCalls::Handoff(HandoffCall {
                tool: result.name.clone(),
                call_id: result.call_id.clone(),
                arguments: result.output().and_then(|output| output.structured.clone()),
            }),
            None => AfterCalls::Step,
        }
    }

    /// `HandingOff`: continues the run with another agent.
    ///
    /// The limits of the run and the overrides from its input stay in effect. Turns and steps that
    /// this run has omitted, hidden or summarized are sent again, unless `next` hides them. The
    /// counters of rejected replies and retries are reset, and the run uses the dialect of the
    /// agent instead of a fallback, because the agent can have another model.
    pub(super) fn hand_over(&mut self, next: NextAgent) -> Transition {
        let NextAgent { name, config, reason, hides_steps } = next;
        let data = &mut self.data;
        data.config = RunConfig { limits: data.config.limits, ..config };
        data.overrides.apply(&mut data.config);
        data.counts.rejected_replies = 0;
        data.counts.failed_attempts.clear();
        data.counts.handoffs += 1;
        data.uses_fallback_dialect = false;
        data.purpose = Purpose::Step;
        data.window = Window::at_start(self.transcript.messages(), data.first_message);
        data.pressure = Pressure::default();
        if hides_steps {
            data.window.hide_steps(self.transcript.len());
        }
        let note: Message = handoff_message(&name, &reason);
        data.agent = Some(name);
        self.push(note);
        State::Ready.go()
    }

    /// Sets the name of the agent that starts the run, in a group of agents.
    pub(crate) fn set_agent(&mut self, agent: &str) {
        self.data.agent = Some(agent.to_owned());
    }

    /// Returns the number of calls to each tool with a maximum, with those of the current batch.
    pub(crate) fn limited_calls(&self) -> BTreeMap<String, u32> {
        let mut counts = self.data.counts.limited_calls.clone();
        for name in self.data.state.batch().into_iter().flat_map(|batch| batch.calls.limited_names()) {
            *counts.entry(name.to_owned()).or_default() += 1;
        }
        counts
    }

    /// Returns the calls that wait for a decision. A decision about a call of an agent that is used
    /// as a tool is a decision about one of [`undecided_calls`](Self::undecided_calls).
    pub fn pending_calls(&self) -> Vec<PendingCall> {
        self.data.state.batch().map(|batch| batch.calls.pending_calls()).unwrap_or_default()
    }

    /// Returns the calls that need a decision, including calls made by agents that are used as
    /// tools.
    pub fn undecided_calls(&self) -> Vec<PendingCall> {
        self.data.state.batch().map(|batch| batch.calls.undecided_calls()).unwrap_or_default()
    }

    /// Returns the calls of the last [`Effect::Call`] without an outcome. If the run was loaded
    /// from storage, their outcome is unknown.
    pub fn interrupted_calls(&self) -> Vec<ToolCall> {
        let batch = self.data.state.batch();
        batch.map(|batch| batch.calls.in_progress().cloned().collect()).unwrap_or_default()
    }
}

/// Returns the reason for the denial of a call to a tool with at most `maximum` calls.
pub(crate) fn denial(maximum: u32) -> String {
    let calls = if maximum == 1 { "1 call".to_owned() } else { format!("{maximum} calls") };
    format!("at most {calls} of this tool per run, and none is left: go on with what you have")
}
