//! The calls of a run.

use std::{mem, sync::Arc};

use haft_core::{
    Message, ToolCall, ToolResult,
    agent::{AgentErrorKind, Limit},
    call::{Answer, FailureKind, PendingCall},
    toolset::ToolList,
};

use super::{Effect, Head, OpenCalls, Phase, Run, RunError, guard};

impl Run {
    /// Tells what came of a call that was handed out. Returns the result as it is recorded, which may say more.
    ///
    /// # Errors
    ///
    /// Fails when no call of this id is under way.
    pub fn on_result(&mut self, id: &str, mut result: ToolResult) -> Result<&Arc<ToolResult>, RunError> {
        let Phase::Calling { calls, queued } = &mut self.head.phase else {
            return Err(RunError::NotUnderWay(id.to_owned()));
        };
        let (call, budget) = calls.under_way_as(id)?;
        // The id and the name are those of the transcript, whatever the driver says.
        if (&result.call_id, &result.name) != (&call.id, &call.name) {
            result = ToolResult { call_id: call.id.clone(), name: call.name.clone(), ..result };
        }
        let used = self.head.retries.get(&call.name).copied().unwrap_or_default();
        guard::bound_retry(&mut result, used, budget);
        if !*queued && self.head.config.identical_calls == Some(self.head.identical_calls) {
            guard::tell_of_repetition(&mut result, self.head.identical_calls);
        }
        calls.finish(id, result)
    }

    /// Tells that a call that was handed out must wait.
    ///
    /// # Errors
    ///
    /// Fails when no call of this id is under way.
    pub fn on_pending(&mut self, pending: PendingCall) -> Result<(), RunError> {
        let PendingCall { call, pending } = pending;
        match &mut self.head.phase {
            Phase::Calling { calls, .. } => calls.suspend(&call.id, pending),
            _ => Err(RunError::NotUnderWay(call.id)),
        }
    }

    /// Gives a call that waits its answer. Answers may come one by one: the calls that have theirs go on, the
    /// others wait on.
    ///
    /// # Errors
    ///
    /// Fails when no call of this id waits, or when it waits for something else.
    pub fn on_answer(&mut self, id: &str, answer: Answer) -> Result<(), RunError> {
        match &mut self.head.phase {
            Phase::Calling { calls, .. } => calls.answer(id, answer),
            _ => Err(RunError::NotWaiting { id: id.to_owned(), waiting: "none".to_owned() }),
        }
    }

    /// The calls that were handed out and have no result: after a load, those whose outcome nobody knows.
    pub fn interrupted(&self) -> Vec<ToolCall> {
        match &self.head.phase {
            Phase::Calling { calls, .. } => calls.under_way().cloned().collect(),
            _ => Vec::new(),
        }
    }

    /// Opens calls, of a reply or of the queue, unless a limit forbids them.
    pub(super) fn begin_calls(&mut self, calls: Vec<ToolCall>, queued: bool) -> Result<(), AgentErrorKind> {
        let tool_calls = self.head.tool_calls.saturating_add(u32::try_from(calls.len()).unwrap_or(u32::MAX));
        self.head.phase = Phase::Calling { calls: OpenCalls::new(calls), queued };
        if let Some(limit) = self.forbids(tool_calls) {
            return self.refuse_calls(limit);
        }
        self.head.tool_calls = tool_calls;
        Ok(())
    }

    /// Closes what is open and what is queued, since a limit forbids it.
    fn refuse_calls(&mut self, limit: Limit) -> Result<(), AgentErrorKind> {
        let why = format!("not run: {limit}");
        self.close(FailureKind::Denied, &why);
        self.close_queue(FailureKind::Denied, &why);
        self.reach(limit)
    }

    /// Goes on with the calls of a reply; no effect when all are done.
    pub(super) fn call(&mut self, tools: &ToolList) -> Result<Option<Effect>, AgentErrorKind> {
        let Phase::Calling { calls, .. } = &mut self.head.phase else { return Ok(None) };
        let under_way: Vec<_> = calls.under_way().map(|call| call.id.as_str()).collect();
        if !under_way.is_empty() {
            return Err(RunError::CallsUnderWay(under_way.join(", ")).into());
        }
        if let Some(fatal) = calls.fatal() {
            let (tool, message) = (fatal.name.clone(), fatal.model_text().into_owned());
            self.close(FailureKind::Cancelled, "not run: the run was stopped");
            self.close_queue(FailureKind::Cancelled, "not run: the run was stopped");
            return Err(AgentErrorKind::Tool { tool, message });
        }
        if calls.are_to_be_made()
            && let Some(limit) = self.time_is_up()
        {
            self.refuse_calls(limit)?;
            return Ok(None);
        }
        let Phase::Calling { calls, .. } = &mut self.head.phase else { return Ok(None) };
        let batch = calls.hand_out(tools);
        if !batch.calls.is_empty() {
            return Ok(Some(Effect::Call(batch)));
        }
        let pending = calls.pending();
        if !pending.is_empty() {
            self.head.is_timed = false;
            return Ok(Some(Effect::Wait(pending)));
        }
        self.settle_calls();
        Ok(None)
    }

    /// Takes note of what came of calls that are all done, and puts it into the transcript.
    pub(super) fn settle_calls(&mut self) {
        let Head { phase: Phase::Calling { calls, queued }, retries, config, .. } = &mut self.head else {
            return;
        };
        let queued = *queued;
        let ends = calls.ending(&config.stop_on).filter(|_| !queued);
        if !queued {
            guard::count_retries(calls.results(), retries);
        }
        self.head.ended_by = ends.map(|place| self.transcript.len() + place).or(self.head.ended_by);
        self.close(FailureKind::Cancelled, "cancelled");
        if ends.is_some() {
            // Beside a tool that ends the run nobody takes over, whatever becomes of its answer.
            self.head.handed = self.transcript.len();
        } else if !queued {
            // What a tool gives that ends the run may not be taken: then it was one more answer in a row.
            self.head.unusable_replies = 0;
        }
    }

    /// Puts the results of all open calls into the transcript, in call order. Calls without one get one that says
    /// why. Those of a queue, which no reply has asked for, are a note.
    pub(super) fn close(&mut self, kind: FailureKind, why: &str) {
        let Phase::Calling { calls, queued } = mem::replace(&mut self.head.phase, Phase::Asking) else {
            return;
        };
        let now = self.head.now;
        let results = calls.close(kind, why, now);
        if queued {
            self.note(results.collect());
        } else {
            self.transcript.extend(results.map(|result| Message::tool(result).at(now).into()));
        }
    }
}
