//! Execution of tool calls.

use std::{future::ready, pin::pin, sync::Arc};

use futures::stream::StreamExt as _;
use haft_core::{
    RunEvent, ToolError, ToolResult,
    agent::AgentErrorKind,
    call::{Failure, FailureKind, Outcome as CallResult, Pending, PendingCall, PendingKind},
    pipeline::CallOutcome,
    tool::RunContext,
    toolset::ToolList,
};
use tokio::time::Instant;

use super::{LastOutcome, OutcomeSender, Performer, send, send_if};
use crate::{
    Outcome,
    hook::HookEvent,
    queue::QueueScope,
    run::{CallBatch, FinishedCall, NestedUsage, ReadyCall},
};

impl Performer {
    /// Performs [`Effect::Call`](crate::Effect::Call): executes the calls in parallel, within the
    /// remaining time of the run. At the time limit, the calls are cancelled. Calls that end within
    /// their grace period have their results.
    pub(super) async fn call(self: Box<Self>, batch: CallBatch, outcomes: OutcomeSender) -> LastOutcome {
        let inputs = match self.inputs(&outcomes).await {
            Ok(inputs) => inputs,
            Err(error) => {
                // No call has started: each can be executed later.
                for ReadyCall { call, .. } in batch.calls {
                    let pending = Pending::new(PendingKind::Postponed);
                    send(&outcomes, Outcome::Pending(Box::new(PendingCall { call, pending }))).await;
                }
                return Err(error);
            }
        };
        let budget = self.scope.budget();
        let calls = u32::try_from(batch.calls.iter().filter(|it| it.is_new).count());
        if let Err(limit) = budget.take_calls(calls.unwrap_or(u32::MAX)) {
            return Ok(Some(Outcome::LimitReached(limit)));
        }
        for ready in &batch.calls {
            self.scope.events().emit(|| RunEvent::CallStarted { call: ready.call.clone() }).await;
        }
        let mut batch = batch;
        self.refuse_changed_tools(&mut batch, &inputs.tools, &outcomes).await;
        budget.begin_calls(&self.run);
        let is_in_time = self.execute(&inputs.tools, batch, &outcomes).await?;
        let nested = || Some(budget.take_use()).filter(|nested| *nested != NestedUsage::default());
        send_if(&outcomes, || nested().map(Outcome::Nested)).await;
        if self.scope.is_cancelled() {
            return Err(AgentErrorKind::Cancelled);
        }
        Ok((!is_in_time).then(|| self.time_is_up()))
    }

    /// Executes the calls, and sends the outcome of each. Returns `false` if the time of the run is
    /// up. Calls that a cancellation has ended are not reported: the run closes them.
    async fn execute(
        &self,
        tools: &ToolList,
        batch: CallBatch,
        outcomes: &OutcomeSender,
    ) -> Result<bool, AgentErrorKind> {
        let cancellation = self.context.cancellation.child_token();
        let context = RunContext { cancellation: cancellation.clone(), ..RunContext::clone(&self.context) };
        let (host, pushed) = self.host_of_pushed_calls(tools);
        let context = QueueScope::new(host).in_context(context);
        let batch = batch.for_pipeline(tools, Arc::new(context));
        let calls = batch.calls.len().max(1);
        let finished = self.agent.0.tools.pipeline().stream_batch(batch);
        let is_kept = |outcome: &CallOutcome| !(is_cancelled(outcome) && cancellation.is_cancelled());
        let finished = finished.filter(|(_, outcome)| ready(is_kept(outcome)));
        // The hooks run while other calls are in progress.
        let judged = finished.map(|(_, outcome)| self.judge_outcome(outcome, tools));
        let mut judged = pin!(judged.buffer_unordered(calls));
        let deadline = self.run.time_left().map(|left| Instant::now() + left);
        let mut is_in_time = true;
        loop {
            let next = tokio::select! {
                biased;
                next = judged.next() => next,
                () = until(deadline), if is_in_time => {
                    is_in_time = false;
                    cancellation.cancel();
                    continue;
                }
            };
            let Some((outcome, error)) = next else { break };
            // The entries are saved before the result that changed them.
            send_if(outcomes, || self.scope.changed_entries()).await;
            send(outcomes, outcome).await;
            if let Some(error) = error {
                return Err(error);
            }
        }
        pushed.finish(outcomes).await?;
        Ok(is_in_time)
    }

    /// Runs the result hooks on the outcome of a call. If a hook fails, the recorded result says
    /// that the call was made, and the error is returned as well.
    async fn judge_outcome(
        &self,
        outcome: CallOutcome,
        tools: &ToolList,
    ) -> (Outcome, Option<AgentErrorKind>) {
        let result = match outcome {
            CallOutcome::Pending(pending) => return (Outcome::Pending(Box::new(pending)), None),
            CallOutcome::Finished(result) => result,
        };
        let hooks = &self.agent.0.hooks;
        let id = result.call_id.clone();
        if !hooks.has(HookEvent::Result) {
            return (Outcome::called(id, result), None);
        }
        let is_handoff = self.run.config().handoff_tools.contains(&result.name);
        let arguments = result.output().filter(|_| is_handoff).and_then(|it| it.structured.clone());
        let unjudged = ToolResult {
            outcome: CallResult::Failed(Failure::new(
                FailureKind::Failed,
                "the call was made, but its result could not be checked",
            )),
            warnings: Vec::new(),
            ..result.clone()
        };
        let (mut result, judgement) = match hooks.judge_result(result, tools, &self.hook_context()).await {
            Ok(judged) => judged,
            Err(error) => return (Outcome::called(id, unjudged), Some(error)),
        };
        if let (Some(arguments), CallResult::Done(output)) = (arguments, &mut result.outcome) {
            // The hook of the hand-off needs its typed arguments.
            output.structured.get_or_insert(arguments);
        }
        (Outcome::Called(Box::new(FinishedCall { id, result, judgement })), None)
    }

    /// Removes the calls from `batch` whose tools have another definition than the one that the
    /// model saw, in another process. The model reads that the tool has changed.
    async fn refuse_changed_tools(&self, batch: &mut CallBatch, tools: &ToolList, outcomes: &OutcomeSender) {
        let has_changed = |ready: &ReadyCall| {
            let now = tools.get(&ready.call.name).map(|tool| tool.definition().fingerprint());
            let is_known = !ready.tool.fingerprint.is_empty();
            // An approval has its own check of the definition.
            is_known && ready.resumed.is_none() && now.is_some_and(|now| now != ready.tool.fingerprint)
        };
        for (position, _) in &mut batch.waiting {
            *position -= batch.calls.iter().take(*position).filter(|it| has_changed(it)).count();
        }
        let (changed, same): (Vec<_>, _) = batch.calls.drain(..).partition(has_changed);
        batch.calls = same;
        for ReadyCall { call, .. } in changed {
            let error = ToolError::retry("the tool has changed since this call was made: call it again");
            let result = ToolResult::failed(call.id.as_str(), call.name.as_str(), &error);
            send(outcomes, Outcome::called(call.id, result)).await;
        }
    }
}

/// Waits until `deadline`, or forever.
async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Returns `true` if `outcome` is the outcome of a cancelled call.
fn is_cancelled(outcome: &CallOutcome) -> bool {
    let CallOutcome::Finished(result) = outcome else { return false };
    result.failure().is_some_and(|failure| failure.kind == FailureKind::Cancelled)
}
