//! Guardrails of a run: input guardrails beside model requests, and guardrails over calls.

use std::{collections::BTreeMap, ops::ControlFlow, pin::pin, sync::Arc, time::Duration};

use futures::future::{BoxFuture, FutureExt as _, join_all};
use haft_core::{
    Message, ToolCall, ToolResult,
    agent::{AgentErrorKind, GuardrailAction},
    model::{ChatRequest, ModelError},
    pipeline::CallOutcome,
    tool::RunContext,
    toolset::ToolList,
    usage::Usage,
};

use super::{ReactAgent, clock::with_time_limit, events::EventSink};
use crate::{
    Run,
    dialect::Reply,
    extension::{Entries, GuardedCallOutcome, StepContext, StepInputs},
    run::{CallBatch, GuardrailOutcome, InputCheck, RulingDecision, RunBudget, RunState},
};

type CheckOutcome = Result<GuardrailOutcome<Vec<Message>>, AgentErrorKind>;

/// The input guardrails that work beside a model request. They continue if the request is repeated.
#[derive(Default)]
pub(super) struct BesideCheck(Option<(InputCheck, BoxFuture<'static, CheckOutcome>)>);

impl BesideCheck {
    /// Waits for the guardrails. Returns their check and its outcome.
    async fn finish(&mut self) -> Result<Option<CheckedInput>, AgentErrorKind> {
        let Some((_, running)) = &mut self.0 else { return Ok(None) };
        let outcome = running.await;
        let check = self.0.take().map(|(check, _)| check);
        outcome.map(|outcome| check.map(|check| CheckedInput { check, outcome }))
    }
}

/// A check of the input and its outcome, which is not reported to the run yet.
struct CheckedInput {
    check: InputCheck,
    outcome: GuardrailOutcome<Vec<Message>>,
}

impl CheckedInput {
    fn report(self, run: &mut Run) -> Result<(), AgentErrorKind> {
        run.on_input_check(&self.check, self.outcome)
    }

    fn ends_request(&self) -> bool {
        self.outcome.decision != RulingDecision::Pass
    }
}

/// The reply of the model, or `None` if the time of the run is up. `Break` if the input guardrails
/// have ended the request.
type BesideReply = ControlFlow<(), Option<Result<Reply, ModelError>>>;

impl ReactAgent {
    /// Performs [`Effect::CheckInput`](crate::Effect::CheckInput).
    pub(super) async fn check_input(
        &self,
        run: &mut Run,
        check: InputCheck,
        beside: &mut BesideCheck,
        (context, entries): (&Arc<RunContext>, &Entries),
    ) -> Result<(), AgentErrorKind> {
        if let Some(checked) = beside.finish().await? {
            return checked.report(run);
        }
        let cx = StepContext::new(run, context, entries);
        // A received reply waits for the guardrails, whose own timeout applies.
        let left = run.time_left().filter(|_| run.state() == RunState::Preparing);
        let outcome = with_time_limit(left, pin!(self.0.extensions.check_input(&check, &cx))).await?;
        drop(cx);
        match outcome {
            Some(outcome) => run.on_input_check(&check, outcome?),
            None => {
                run.on_time_limit();
                Ok(())
            }
        }
    }

    /// Starts the input guardrails for the next request if `run` needs them. Returns `true` if
    /// guardrails work beside the request.
    pub(super) fn start_beside_check(
        &self,
        run: &Run,
        beside: &mut BesideCheck,
        (context, entries): (&Arc<RunContext>, &Entries),
    ) -> bool {
        if beside.0.is_none()
            && let Some(check) = run.input_check()
        {
            let (extensions, cx) = (Arc::clone(&self.0.extensions), StepContext::new(run, context, entries));
            let own = check.clone();
            beside.0 = Some((check, async move { extensions.check_input(&own, &cx).await }.boxed()));
        }
        beside.0.is_some()
    }

    /// Sends `request` while the input guardrails work. Holds back the events of the reply until
    /// the guardrails have passed the input. Aborts the request if they have not.
    pub(super) async fn chat_beside(
        &self,
        run: &mut Run,
        (inputs, request): (&StepInputs, &ChatRequest),
        (events, budget): (&EventSink, &RunBudget),
        beside: &mut BesideCheck,
        left: Option<Duration>,
    ) -> Result<BesideReply, AgentErrorKind> {
        let held = events.holding();
        let (reply, checked) = {
            let chat = self.chat(run, inputs, request, (&held, budget));
            let mut chat = pin!(async { with_time_limit(left, pin!(chat)).await?.transpose() });
            tokio::select! {
                biased;
                checked = beside.finish() => match checked {
                    Ok(Some(checked)) if !checked.ends_request() => {
                        held.release().await;
                        (Some(chat.await?), Ok(Some(checked)))
                    }
                    checked => (None, checked),
                },
                reply = &mut chat => match reply? {
                    Some(Ok(reply)) => (Some(Some(Ok(reply))), beside.finish().await),
                    // The guardrails continue if the run repeats the request.
                    failed => return Ok(BesideReply::Continue(failed)),
                },
            }
        };
        match (reply, checked) {
            (Some(reply), Ok(Some(checked))) if !checked.ends_request() => {
                held.release().await;
                checked.report(run)?;
                Ok(BesideReply::Continue(reply))
            }
            (reply, checked) => {
                let usage = match reply {
                    Some(Some(Ok(reply))) => reply.usage,
                    _ => Usage::failed_request(),
                };
                run.on_lost_reply(usage);
                checked?.map_or(Ok(()), |checked| checked.report(run))?;
                Ok(BesideReply::Break(()))
            }
        }
    }

    /// Runs the call guardrails on all calls of `batch`, before any of them is executed. Changes
    /// the arguments of the calls, and returns the results of the blocked calls. Fails if a
    /// guardrail ends the run.
    pub(super) async fn guard_calls(
        &self,
        run: &mut Run,
        tools: &ToolList,
        batch: &mut CallBatch,
        (context, entries): (&Arc<RunContext>, &Entries),
    ) -> Result<BTreeMap<String, ToolResult>, AgentErrorKind> {
        let mut blocked = BTreeMap::new();
        let outcomes = {
            let cx = StepContext::new(run, context, entries);
            let place = (self.0.tools.pipeline(), tools);
            let check = |call| self.0.extensions.check_call(call, batch.resumed.get(&call.id), place, &cx);
            join_all(batch.calls.iter().map(check)).await
        };
        let mut has_ended = false;
        for (call, outcome) in batch.calls.iter_mut().zip(outcomes) {
            let (outcome, reports) = outcome?;
            run.record_guardrails(reports);
            match outcome {
                GuardedCallOutcome::Pass => {}
                GuardedCallOutcome::Rewrite(_, Some(resumed)) => {
                    batch.resumed.insert(call.id.clone(), *resumed);
                }
                GuardedCallOutcome::Rewrite(arguments, None) => {
                    *call = ToolCall::new(call.id.as_str(), call.name.as_str(), arguments.clone());
                    run.rewrite_call(&call.id, arguments)?;
                }
                GuardedCallOutcome::Block(result) => {
                    blocked.insert(call.id.clone(), *result);
                }
                GuardedCallOutcome::End => {
                    has_ended = true;
                    break;
                }
            }
        }
        if has_ended { Err(run.end_by_guardrail()) } else { Ok(blocked) }
    }

    /// Runs the result guardrails on `outcome`. Returns the outcome to record, and `true` if a
    /// guardrail ends the run after that.
    pub(super) async fn guard_result(
        &self,
        run: &mut Run,
        tools: &ToolList,
        outcome: CallOutcome,
        (context, entries): (&Arc<RunContext>, &Entries),
    ) -> Result<(CallOutcome, bool), AgentErrorKind> {
        let CallOutcome::Finished(result) = outcome else { return Ok((outcome, false)) };
        let cx = StepContext::new(run, context, entries);
        let (result, reports) = self.0.extensions.check_result(result, tools, &cx).await?;
        drop(cx);
        let has_ended = reports.last().is_some_and(|report| report.action == GuardrailAction::End);
        run.record_guardrails(reports);
        Ok((CallOutcome::Finished(result), has_ended))
    }
}
