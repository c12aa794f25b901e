//! The events and hooks of calls that tools push to their queue.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use haft_core::{
    Pipeline, RunEvent, Tool, ToolCall, agent::AgentErrorKind, call::Decision, export::async_trait,
    pipeline::CallOutcome, schema::Repair, toolset::ToolList,
};
use serde_json::Value;

use super::{OutcomeSender, Performer, send_if};
use crate::{
    Outcome,
    agent::events::EventSink,
    hook::{HookContext, HookEvent, HookSet, Judgement, Verdict},
    queue::QueueHost,
    run::{CallBatch, ReadyCall},
};

/// The host of the calls that the calls of one batch push.
pub(super) struct PushedCalls {
    tools: ToolList,
    pipeline: Pipeline,
    events: EventSink,
    hooks: HookSet,
    /// `None` if no hook judges calls or results.
    context: Option<HookContext>,
    log: Arc<PushedLog>,
}

/// What the hooks decided about pushed calls, for the run.
#[derive(Default)]
pub(super) struct PushedLog(Mutex<LogData>);

#[derive(Default)]
struct LogData {
    /// The verdict is [`Verdict::End`] if a hook ends the run.
    judgement: Judgement,
    /// The repairs of the calls in progress, by call id.
    repairs: BTreeMap<String, Vec<Repair>>,
    error: Option<AgentErrorKind>,
}

impl PushedLog {
    /// Reports the decisions to the run.
    ///
    /// # Errors
    ///
    /// Fails if a hook failed.
    pub(super) async fn finish(&self, outcomes: &OutcomeSender) -> Result<(), AgentErrorKind> {
        let error = self.lock().error.take();
        send_if(outcomes, || {
            let judgement = mem::take(&mut self.lock().judgement);
            (judgement != Judgement::default()).then_some(Outcome::Judged(judgement))
        })
        .await;
        error.map_or(Ok(()), Err)
    }

    fn lock(&self) -> MutexGuard<'_, LogData> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Performer {
    /// Returns the host of the calls that calls to `tools` push, and the log of the decisions about
    /// them.
    pub(super) fn host_of_pushed_calls(&self, tools: &ToolList) -> (PushedCalls, Arc<PushedLog>) {
        let hooks = self.agent.0.hooks.clone();
        let judges = hooks.has(HookEvent::Call) || hooks.has(HookEvent::Result);
        let log = Arc::<PushedLog>::default();
        let host = PushedCalls {
            tools: self.pushable_tools(tools),
            pipeline: self.agent.0.tools.pipeline().clone(),
            events: self.scope.events().clone(),
            hooks,
            context: judges.then(|| self.hook_context()),
            log: Arc::clone(&log),
        };
        (host, log)
    }

    /// Returns the tools in `tools` whose calls can be pushed: all except hand-off tools. A
    /// hand-off must be part of a reply, since it takes effect after the calls of this reply.
    fn pushable_tools(&self, tools: &ToolList) -> ToolList {
        let handoffs = &self.run.config().handoff_tools;
        if handoffs.is_empty() {
            return tools.clone();
        }
        let compute = |tools: &ToolList| PushableTools::new(tools, handoffs.clone());
        let cached = tools.memoize(compute);
        if cached.handoffs == *handoffs { cached.tools.clone() } else { compute(tools).tools }
    }
}

/// The tools whose calls can be pushed, cached in the original tool list.
struct PushableTools {
    /// The names of the hand-off tools, which are not in `tools`.
    handoffs: BTreeSet<String>,
    tools: ToolList,
}

impl PushableTools {
    fn new(tools: &ToolList, handoffs: BTreeSet<String>) -> Self {
        let is_pushable = |tool: &Arc<dyn Tool>| !handoffs.contains(tool.definition().name().as_str());
        let tools = tools.filter_map(|tool| is_pushable(tool).then(|| Arc::clone(tool)));
        Self { handoffs, tools }
    }
}

impl PushedCalls {
    /// Runs the call hooks on the calls of `batch`, and applies their verdicts to it.
    async fn judge_calls(&self, batch: &mut CallBatch, context: &HookContext) {
        for ready in batch.calls.iter_mut().filter(|ready| !ready.is_checked && ready.denied.is_none()) {
            let judged = self.hooks.judge_call(ready, &self.pipeline, &self.tools, context).await;
            let reason = match judged {
                Ok(Judgement { verdict, reports }) => {
                    self.log.lock().judgement.reports.extend(reports);
                    match verdict {
                        // The pipeline must not repair the arguments again, after the hooks.
                        Verdict::Pass => {
                            ready.is_checked = true;
                            continue;
                        }
                        Verdict::Replace(new) => {
                            self.log.lock().repairs.insert(ready.call.id.clone(), new.repairs);
                            replace_arguments(ready, new.arguments);
                            continue;
                        }
                        Verdict::Retry(text) | Verdict::Block(text) => text,
                        Verdict::End(reason) => {
                            self.log.lock().judgement.verdict = Verdict::End(reason);
                            "a guardrail ended the run".to_owned()
                        }
                    }
                }
                Err(error) => {
                    self.log.lock().error.get_or_insert(error);
                    "a guardrail failed".to_owned()
                }
            };
            ready.denied = Some(reason);
        }
        let is_over = {
            let log = self.log.lock();
            matches!(log.judgement.verdict, Verdict::End(_)) || log.error.is_some()
        };
        if is_over {
            for ready in &mut batch.calls {
                ready.denied.get_or_insert_with(|| "the run ends".to_owned());
            }
        }
    }
}

/// Replaces the arguments of the call, or the arguments in the decision about it.
fn replace_arguments(ready: &mut ReadyCall, arguments: Value) {
    match &mut ready.resumed {
        Some(resumed) => {
            let decision = Decision::approved_with_arguments(arguments);
            // Only the arguments of an approval are replaced, so the decision fits.
            if let Ok(replaced) = resumed.pending().clone().resume(decision) {
                *resumed = replaced;
            }
        }
        None => {
            ready.call = ToolCall::new(ready.call.id.as_str(), ready.call.name.as_str(), arguments);
            ready.is_checked = true;
        }
    }
}

#[async_trait]
impl QueueHost for PushedCalls {
    fn tools(&self) -> &ToolList {
        &self.tools
    }

    fn pipeline(&self) -> Pipeline {
        self.pipeline.clone()
    }

    async fn before_calls(&self, batch: &mut CallBatch) {
        if let Some(context) = &self.context {
            self.judge_calls(batch, context).await;
        }
        for ready in &batch.calls {
            self.events.emit(|| RunEvent::CallStarted { call: ready.call.clone() }).await;
        }
    }

    async fn after_call(&self, outcome: CallOutcome) -> CallOutcome {
        let outcome = match (outcome, &self.context) {
            (CallOutcome::Finished(mut result), Some(context)) => {
                let repairs = self.log.lock().repairs.remove(&result.call_id);
                result.repairs.splice(0..0, repairs.into_iter().flatten());
                let unchecked = result.clone();
                match self.hooks.judge_result(result, &self.tools, context).await {
                    Ok((result, Judgement { verdict, reports })) => {
                        let judgement = &mut self.log.lock().judgement;
                        judgement.reports.extend(reports);
                        if let Verdict::End(_) = verdict {
                            judgement.verdict = verdict;
                        }
                        CallOutcome::Finished(result)
                    }
                    Err(error) => {
                        self.log.lock().error.get_or_insert(error);
                        CallOutcome::Finished(unchecked)
                    }
                }
            }
            (outcome, _) => outcome,
        };
        let event = match &outcome {
            CallOutcome::Finished(result) => RunEvent::CallFinished { result: Arc::new(result.clone()) },
            CallOutcome::Pending(pending) => RunEvent::CallPending { pending: Box::new(pending.clone()) },
        };
        self.events.emit(|| event).await;
        outcome
    }
}
