//! Execution of tool calls, and the reports of their outcomes.

use std::sync::Arc;

use haft_core::{
    Message, ToolCall, ToolResult,
    agent::{AgentErrorKind, Limit},
    call::{Decision, FailureKind, PendingCall},
    schema::Repair,
    toolset::ToolList,
};

use super::{
    Effect, LimitAction, Run, RunBudget, RunError, call_counts, repetition,
    state::{Batch, RequestPurpose, State},
};
use crate::open_calls::OpenCalls;

impl Run {
    /// Reports the result of the call with this `id`. Returns the recorded result, which may differ
    /// from `result`: the run sets the id and the name of the call, adds a warning if the model
    /// must not repeat the call again with an equal result, and turns a retry request into a final
    /// failure if the retry budget of the tool is exhausted.
    ///
    /// # Errors
    ///
    /// Fails if no call with this id is in progress.
    pub fn on_result(&mut self, id: &str, mut result: ToolResult) -> Result<&Arc<ToolResult>, RunError> {
        let is_last = self.head.config.max_repeated_calls == Some(self.head.repeated_calls);
        if is_last {
            self.update_history(None);
        }
        let Some(Batch { calls, is_written, .. }) = self.head.state.batch_mut() else {
            return Err(RunError::NotInProgress(id.to_owned()));
        };
        let (call, budget) = calls.find_in_progress(id)?;
        // The recorded result has the id and the name of the call in the transcript.
        if (&result.call_id, &result.name) != (&call.id, &call.name) {
            result = ToolResult { call_id: call.id.clone(), name: call.name.clone(), ..result };
        }
        let used = self.head.failed_attempts.get(&call.name).map_or(0, |failed| failed.retries);
        repetition::limit_retries(&mut result, used, budget);
        if is_last && !self.history.is_new_result(call, &result) {
            repetition::warn_of_repetition(&mut result, self.head.repeated_calls);
        }
        if *is_written {
            result.repairs.insert(0, Repair::written_as_text());
        }
        calls.finish(id, result)
    }

    /// Reports that the call in `pending` is suspended until a decision is made. If it is
    /// [postponed](haft_core::call::PendingKind::Postponed), it is returned for execution again
    /// after the next decision about another call of the batch.
    ///
    /// # Errors
    ///
    /// Fails if the call in `pending` is not in progress.
    pub fn on_pending(&mut self, pending: PendingCall) -> Result<(), RunError> {
        let PendingCall { call, pending } = pending;
        match self.head.state.batch_mut() {
            Some(batch) => batch.calls.suspend(&call.id, pending),
            None => Err(RunError::NotInProgress(call.id)),
        }
    }

    /// Reports the decision about the waiting call with this `id`. `id` can also identify a nested
    /// call, for example a call in the run of an agent used as a tool. Decisions can be reported
    /// one by one: calls with a decision continue, and the other calls keep waiting.
    ///
    /// # Errors
    ///
    /// Fails if no call with this id waits for a decision, or if the decision does not fit the
    /// call.
    pub fn on_decision(&mut self, id: &str, decision: Decision) -> Result<(), RunError> {
        let rules = self.rules_of(id, &decision);
        match self.head.state.batch_mut() {
            Some(batch) => batch.calls.decide(id, decision)?,
            None => return Err(RunError::CallNotWaiting { id: id.to_owned(), waiting: "none".to_owned() }),
        }
        self.remember(rules);
        Ok(())
    }

    /// Returns the calls of the last [`Effect::Call`] to the run, because the driver has not
    /// started them. Reported outcomes are kept. [`next`](Self::next) returns the other calls
    /// again.
    ///
    /// A driver returns the calls before their call guardrails run: if the guardrails fail, or the
    /// process crashes, the run knows that no call was executed.
    pub fn return_calls(&mut self) {
        if let Some(batch) = self.head.state.batch_mut() {
            batch.calls.return_unstarted();
        }
    }

    /// Returns the calls that wait for a decision.
    pub fn pending_calls(&self) -> Vec<PendingCall> {
        self.head.state.batch().map(|batch| batch.calls.pending_calls()).unwrap_or_default()
    }

    /// Returns the calls of the last [`Effect::Call`] without a reported outcome. If the run was
    /// loaded from storage, their outcome is unknown.
    pub fn interrupted_calls(&self) -> Vec<ToolCall> {
        let batch = self.head.state.batch();
        batch.map(|batch| batch.calls.in_progress().cloned().collect()).unwrap_or_default()
    }

    /// Returns the ready calls as an effect, or [`Effect::Wait`] if all open calls wait for
    /// decisions. Returns `None` if the calls are finished or were denied by a limit. Fails if a
    /// call is still in progress, if the result of a call is fatal, or if a limit ends the run.
    pub(super) fn next_calls(&mut self, tools: &ToolList) -> Result<Option<Effect>, AgentErrorKind> {
        let time_is_up = self.reached_time_limit();
        let Some(Batch { calls, .. }) = self.head.state.batch_mut() else { return Ok(None) };
        let in_progress: Vec<_> = calls.in_progress().map(|call| call.id.as_str()).collect();
        if !in_progress.is_empty() {
            return Err(RunError::CallsInProgress(in_progress.join(", ")).into());
        }
        if let Some(fatal) = calls.fatal_result() {
            let (tool, message) = (fatal.name.clone(), fatal.model_text().into_owned());
            self.close_calls(FailureKind::Cancelled, "not run: the run was stopped");
            return Err(AgentErrorKind::FatalTool { tool, message });
        }
        if let Some(limit) = time_is_up.filter(|_| calls.has_ready()) {
            self.deny_calls(limit)?;
            return Ok(None);
        }
        let (mut batch, has_maximum) = calls.take_ready(tools);
        if !batch.calls.is_empty() {
            self.add_failed_attempts(&mut batch);
            if has_maximum {
                self.deny_calls_beyond_maximum(&mut batch, tools);
            }
            return Ok(Some(Effect::Call(batch)));
        }
        let pending = calls.pending_calls();
        if !pending.is_empty() {
            self.head.clock.stop();
            self.head.state.suspend();
            return Ok(Some(Effect::Wait(pending)));
        }
        self.finish_calls();
        Ok(None)
    }

    /// Records the results of the current batch after all its calls are finished, and ends the run
    /// if a tool in `stop_on` succeeded or the reply contains the answer.
    fn finish_calls(&mut self) {
        let now = self.head.now();
        let Some(mut batch) = self.head.state.take_calls() else { return };
        batch.calls.accept_answer(now);
        let mut next = self.state_after(&batch);
        repetition::count_attempts(batch.calls.results(), &mut self.head.failed_attempts);
        // If a validator rejects the answer of a stop tool or a review, the rejection counts as
        // consecutive.
        if let State::ReadyToRequest { .. } = next {
            if self.head.config.review_calls {
                next = State::ReviewingCalls { results: self.transcript.len(), output: None };
            } else {
                self.head.rejected_replies = 0;
            }
        }
        self.record_results(batch, FailureKind::Cancelled, "cancelled");
        self.head.state.finish_calls(next);
    }

    /// Closes the current batch of calls. Each call without a result gets a failure with the kind
    /// `kind` and the message `why`. The result of a stop tool that succeeded is still the answer.
    /// The calls are not reviewed.
    pub(super) fn close_calls(&mut self, kind: FailureKind, why: &str) {
        let Some(batch) = self.head.state.take_calls() else { return };
        let next = self.state_after(&batch);
        self.record_results(batch, kind, why);
        self.head.state.finish_calls(next);
    }

    /// Returns the state after `batch`, whose results are not in the transcript yet.
    fn state_after(&self, batch: &Batch) -> State {
        let (answers, tools) = (&self.head.answer_calls, &self.head.config.stop_on);
        let answer = batch.calls.position_of_success(|result| answers.contains(&result.call_id));
        let stop = || batch.calls.position_of_success(|result| tools.contains(&result.name));
        match answer.or_else(stop) {
            Some(position) => {
                State::StoppedByTool { result: self.transcript.len() + position, purpose: batch.purpose }
            }
            None => State::ReadyToRequest { purpose: RequestPurpose::Step },
        }
    }

    /// Appends the results of `batch` to the transcript, in call order. Each call without a result
    /// gets a failure with the kind `kind` and the message `why`.
    fn record_results(&mut self, batch: Batch, kind: FailureKind, why: &str) {
        let now = self.head.now();
        call_counts::count_calls(batch.calls.results(), &mut self.head.limited_calls);
        let results = batch.calls.into_results(kind, why, now);
        self.transcript.extend(results.map(|result| Message::tool(result).with_created_at(now).into()));
    }

    /// Records a failure for each call in `calls`, the calls of one reply. The message of each
    /// failure contains `limit`.
    pub(super) fn record_denied(&mut self, calls: OpenCalls, limit: Limit) {
        let why = format!("not run: {limit}");
        let batch = Batch { calls, purpose: RequestPurpose::Step, is_written: false };
        self.record_results(batch, FailureKind::Denied, &why);
    }

    /// Closes each open call with a failure whose message contains `limit`, then applies
    /// [`LimitAction`].
    pub(super) fn deny_calls(&mut self, limit: Limit) -> Result<(), AgentErrorKind> {
        let now = self.head.now();
        if let Some(batch) = self.head.state.batch_mut() {
            batch.calls.accept_answer(now);
        }
        self.close_calls(FailureKind::Denied, &format!("not run: {limit}"));
        self.stop_at_limit(limit)
    }

    /// Applies [`LimitAction`] after all calls were closed because of `limit`. If the next request
    /// is already the final request, the run still makes this request, and the model receives the
    /// failures of the closed calls. If a stop tool has succeeded, or an answer was given beside
    /// the calls, the run ends with it.
    pub(super) fn stop_at_limit(&mut self, limit: Limit) -> Result<(), AgentErrorKind> {
        let answers = self.head.config.limit_action == LimitAction::Answer;
        match self.head.state.state() {
            State::StoppedByTool { .. } => Ok(()),
            State::ReadyToRequest { purpose } if answers && purpose.limit().is_some() => Ok(()),
            State::ReadyToRequest { purpose } => {
                let (next, result) = self.apply_limit_action(*purpose, limit);
                if let State::ReadyToRequest { purpose } = next {
                    self.head.state.change_purpose(purpose);
                }
                result
            }
            _ => Err(AgentErrorKind::LimitReached(limit)),
        }
    }

    /// Adds `calls`, the number of new calls, to the tool call count of the run and of the
    /// enclosing runs. If a limit forbids the calls, returns this limit and adds nothing. `None` if
    /// the calls are allowed.
    pub(super) fn count_calls(
        &mut self,
        purpose: RequestPurpose,
        calls: usize,
        budget: Option<&RunBudget>,
    ) -> Option<Limit> {
        let calls = u32::try_from(calls).unwrap_or(u32::MAX);
        let total = self.head.tool_calls.saturating_add(calls);
        let limit = self.reached_call_limit(purpose, total);
        let limit = limit.or_else(|| budget?.take_calls(calls).err());
        if limit.is_none() {
            self.head.tool_calls = total;
        }
        limit
    }
}
