//! Guardrails of a run: input guardrails in parallel with model requests, and guardrails over
//! calls.

use std::{collections::VecDeque, mem, ops::ControlFlow, pin::pin, sync::Arc, time::Duration};

use futures::future::{BoxFuture, FutureExt as _, join_all};
use haft_core::{
    Message, RunEvent,
    agent::{AgentErrorKind, GuardrailAction},
    call::Outcome,
    model::{ChatRequest, ModelError},
    pipeline::CallOutcome,
    toolset::ToolList,
    usage::Usage,
};

use super::{ReactAgent, clock::with_time_limit, drive::DriveScope};
use crate::{
    Run,
    dialect::Reply,
    extension::StepInputs,
    run::{CallBatch, GuardrailOutcome, InputCheck, RulingDecision, RunState},
};

type CheckOutcome = Result<GuardrailOutcome<Vec<Message>>, AgentErrorKind>;

/// The checks of the input guardrails that run in parallel with a model request. They continue if
/// the request is repeated.
#[derive(Default)]
pub(super) struct ParallelCheck {
    /// The checks that are not finished, in the order of their messages. A check starts after the
    /// checks before it.
    running: VecDeque<(InputCheck, BoxFuture<'static, CheckOutcome>)>,
    /// The finished checks that are not reported to the run yet.
    finished: Vec<(InputCheck, GuardrailOutcome<Vec<Message>>)>,
}

impl ParallelCheck {
    /// Waits for the guardrails, or for the first guardrail that does not pass the input. If the
    /// future is dropped, the checks continue with the next call.
    async fn finish(&mut self) -> Result<(), AgentErrorKind> {
        while let Some((_, running)) = self.running.front_mut() {
            let outcome = running.await;
            let Some((check, _)) = self.running.pop_front() else { break };
            self.finished.push((check, outcome?));
            if !self.has_passed() {
                self.running.clear();
            }
        }
        Ok(())
    }

    /// Waits for the end of the guardrails after a cancellation of the run.
    pub(super) async fn wait_for_end(&mut self) {
        // The first error is the cancellation. The guardrails of later checks have not started.
        let _cancelled = self.finish().await;
    }

    /// Reports the finished checks to `run`.
    fn report(&mut self, run: &mut Run) -> Result<(), AgentErrorKind> {
        let mut finished = mem::take(&mut self.finished).into_iter();
        finished.try_for_each(|(check, outcome)| run.on_input_check(&check, outcome))
    }

    /// Returns `true` if no finished check ends the request.
    fn has_passed(&self) -> bool {
        self.finished.iter().all(|(_, outcome)| outcome.decision == RulingDecision::Pass)
    }

    /// Returns the last check. `None` if all checks are reported.
    fn last(&self) -> Option<&InputCheck> {
        let running = self.running.back().map(|(check, _)| check);
        running.or_else(|| self.finished.last().map(|(check, _)| check))
    }
}

/// The reply of the model, or `None` if the time of the run is up. `Break` if the input guardrails
/// have ended the request.
pub(super) type CheckedReply = ControlFlow<(), Option<Result<Reply, ModelError>>>;

impl ReactAgent {
    /// Performs [`Effect::CheckInput`](crate::Effect::CheckInput).
    pub(super) async fn check_input(
        &self,
        run: &mut Run,
        check: InputCheck,
        parallel: &mut ParallelCheck,
        scope: &DriveScope<'_>,
    ) -> Result<(), AgentErrorKind> {
        if check.is_parallel && parallel.last().is_some() {
            parallel.finish().await?;
            return parallel.report(run);
        }
        // A received reply waits for the guardrails, whose own timeout applies.
        let left = run.time_left().filter(|_| run.state() == RunState::Preparing);
        let extensions = &self.0.extensions;
        let outcome = with_time_limit(left, extensions.check_input(&check, &scope.step_context(run))).await?;
        match outcome {
            Some(outcome) => run.on_input_check(&check, outcome?),
            None => {
                run.on_time_limit();
                Ok(())
            }
        }
    }

    /// Starts the input guardrails for the next request if `run` needs them. Returns `true` if
    /// guardrails run in parallel with the request.
    pub(super) fn start_parallel_check(
        &self,
        run: &Run,
        parallel: &mut ParallelCheck,
        scope: &DriveScope<'_>,
    ) -> bool {
        let current = run.input_check();
        let new = match parallel.last() {
            Some(last) => current.and_then(|check| check.after(last)),
            None => current,
        };
        if let Some(check) = new {
            let (extensions, cx) = (Arc::clone(&self.0.extensions), scope.step_context(run));
            let own = check.clone();
            let checking = async move { extensions.check_input(&own, &cx).await };
            parallel.running.push_back((check, checking.boxed()));
        }
        parallel.last().is_some()
    }

    /// Sends `request` while the input guardrails work. Holds back the events of the reply until
    /// the guardrails have passed the input. Aborts the request if they have not.
    pub(super) async fn chat_with_parallel_check(
        &self,
        run: &mut Run,
        inputs: &StepInputs,
        request: &ChatRequest,
        scope: &DriveScope<'_>,
        parallel: &mut ParallelCheck,
        left: Option<Duration>,
    ) -> Result<CheckedReply, AgentErrorKind> {
        let held = scope.events.holding();
        let (reply, checked) = {
            let chat = self.chat(run, inputs, request, &held, scope.budget);
            let mut chat = pin!(async { with_time_limit(left, chat).await?.transpose() });
            tokio::select! {
                biased;
                checked = parallel.finish() => match checked {
                    Ok(()) if parallel.has_passed() => {
                        held.release().await;
                        (Some(chat.await?), Ok(()))
                    }
                    checked => (None, checked),
                },
                reply = &mut chat => match reply? {
                    Some(Ok(reply)) => (Some(Some(Ok(reply))), parallel.finish().await),
                    // The guardrails continue if the run repeats the request.
                    failed => return Ok(CheckedReply::Continue(failed)),
                },
            }
        };
        match (reply, checked) {
            (Some(reply), Ok(())) if parallel.has_passed() => {
                held.release().await;
                parallel.report(run)?;
                Ok(CheckedReply::Continue(reply))
            }
            (reply, checked) => {
                let usage = match reply {
                    Some(Some(Ok(reply))) => reply.usage,
                    _ => Usage::failed_request(),
                };
                run.on_lost_reply(usage);
                checked?;
                parallel.report(run)?;
                Ok(CheckedReply::Break(()))
            }
        }
    }

    /// Runs the call guardrails on the unchecked calls of `batch`, within the remaining time of
    /// `run`. `run` then returns the remaining calls again. Fails if a guardrail ends the run.
    pub(super) async fn guard_calls(
        &self,
        run: &mut Run,
        tools: &ToolList,
        batch: &CallBatch,
        scope: &DriveScope<'_>,
    ) -> Result<(), AgentErrorKind> {
        run.return_calls();
        let extensions = &self.0.extensions;
        let unchecked = extensions.unchecked_calls(batch);
        let outcomes = {
            let (cx, pipeline) = (scope.step_context(run), self.0.tools.pipeline());
            let checks = unchecked
                .iter()
                .map(|call| extensions.check_call(call, batch.resumed.get(&call.id), pipeline, tools, &cx));
            with_time_limit(run.time_left(), join_all(checks)).await?
        };
        let Some(outcomes) = outcomes else {
            run.on_time_limit();
            return Ok(());
        };
        for (call, outcome) in unchecked.into_iter().zip(outcomes) {
            if let Some(result) = run.on_call_check(&call.id, outcome?)? {
                let result = Arc::clone(result);
                scope.events.emit(|| RunEvent::CallStarted { call: call.clone() }).await;
                scope.events.emit(|| RunEvent::CallFinished { result }).await;
            }
        }
        Ok(())
    }

    /// Runs the result guardrails on `outcome`. Returns the outcome to record, and `true` if a
    /// guardrail ends the run after that.
    pub(super) async fn guard_result(
        &self,
        run: &mut Run,
        tools: &ToolList,
        outcome: CallOutcome,
        scope: &DriveScope<'_>,
    ) -> Result<(CallOutcome, bool), AgentErrorKind> {
        let CallOutcome::Finished(result) = outcome else { return Ok((outcome, false)) };
        let is_handoff = self.0.handoff_tools.contains(&result.name);
        let arguments = result.output().filter(|_| is_handoff).and_then(|it| it.structured.clone());
        let (mut result, reports) =
            self.0.extensions.check_result(result, tools, &scope.step_context(run)).await?;
        if let (Some(arguments), Outcome::Done(output)) = (arguments, &mut result.outcome) {
            // The hook of the hand-off needs its typed arguments.
            output.structured.get_or_insert(arguments);
        }
        let has_ended = reports.last().is_some_and(|report| report.action == GuardrailAction::End);
        run.record_guardrails(reports);
        Ok((CallOutcome::Finished(result), has_ended))
    }
}
