//! The events and guardrails of pushed calls.

use std::{
    collections::BTreeSet,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use haft_core::{
    Pipeline, RunEvent, Tool, ToolCall,
    agent::{AgentErrorKind, GuardrailAction, GuardrailReport, GuardrailStage},
    call::Decision,
    export::async_trait,
    pipeline::{Batch, BatchCall, CallOutcome},
    toolset::ToolList,
};

use super::{ReactAgent, events::EventSink};
use crate::{
    Run,
    extension::{ExtensionSet, StepContext},
    queue::QueueHost,
    run::{CallBatch, RulingDecision},
};

/// The host of the calls that one batch of calls pushes.
pub(super) struct PushedCalls {
    tools: ToolList,
    pipeline: Pipeline,
    events: EventSink,
    extensions: Arc<ExtensionSet>,
    /// The context of the guardrails. `None` if there are no guardrails over calls and results.
    context: Option<StepContext>,
    verdicts: Arc<Verdicts>,
}

/// The decisions of the guardrails about pushed calls, for the run.
#[derive(Default)]
pub(super) struct Verdicts(Mutex<VerdictLog>);

#[derive(Default)]
struct VerdictLog {
    reports: Vec<GuardrailReport>,
    /// `true` if a guardrail ends the run.
    has_ended: bool,
    error: Option<AgentErrorKind>,
}

impl Verdicts {
    /// Records the decisions in `run`.
    ///
    /// # Errors
    ///
    /// Fails if a guardrail ended the run or failed.
    pub(super) fn apply(&self, run: &mut Run) -> Result<(), AgentErrorKind> {
        let VerdictLog { reports, has_ended, error } = mem::take(&mut *self.log());
        run.record_guardrails(reports);
        match error {
            Some(error) => Err(error),
            None if has_ended => Err(run.end_by_guardrail()),
            None => Ok(()),
        }
    }

    fn has_ended(&self) -> bool {
        let log = self.log();
        log.has_ended || log.error.is_some()
    }

    fn fail(&self, error: AgentErrorKind) {
        self.log().error.get_or_insert(error);
    }

    fn log(&self) -> MutexGuard<'_, VerdictLog> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReactAgent {
    /// Returns the host of the calls that calls to `tools` push, and the later decisions about
    /// these calls. `context` returns the context of the guardrails.
    pub(super) fn queue_host(
        &self,
        tools: &ToolList,
        events: &EventSink,
        context: impl FnOnce() -> StepContext,
    ) -> (PushedCalls, Arc<Verdicts>) {
        let extensions = Arc::clone(&self.0.extensions);
        let stages = [GuardrailStage::Call, GuardrailStage::CallResult];
        let has_guardrails = stages.into_iter().any(|stage| extensions.has_guardrails(stage));
        let verdicts = Arc::<Verdicts>::default();
        let host = PushedCalls {
            tools: self.queueable_tools(tools),
            pipeline: self.0.tools.pipeline().clone(),
            events: events.clone(),
            extensions,
            context: has_guardrails.then(context),
            verdicts: Arc::clone(&verdicts),
        };
        (host, verdicts)
    }

    /// Returns the tools in `tools` whose calls can be pushed: all except hand-off tools. A
    /// hand-off must be part of a reply, since it takes effect after the calls of this reply.
    fn queueable_tools(&self, tools: &ToolList) -> ToolList {
        let handoff_tools = &self.0.handoff_tools;
        if handoff_tools.is_empty() {
            return tools.clone();
        }
        let compute = |tools: &ToolList| QueueableTools::new(tools, Arc::clone(handoff_tools));
        let cached = tools.memoize(compute);
        if cached.handoff_tools == *handoff_tools { cached.tools.clone() } else { compute(tools).tools }
    }
}

/// The tools whose calls can be pushed, cached in the original tool list.
struct QueueableTools {
    /// The names of the hand-off tools, which are not in `tools`.
    handoff_tools: Arc<BTreeSet<String>>,
    tools: ToolList,
}

impl QueueableTools {
    fn new(tools: &ToolList, handoff_tools: Arc<BTreeSet<String>>) -> Self {
        let is_queueable = |tool: &Arc<dyn Tool>| !handoff_tools.contains(tool.definition().name().as_str());
        let tools = tools.filter_map(|tool| is_queueable(tool).then(|| Arc::clone(tool)));
        Self { handoff_tools, tools }
    }
}

impl PushedCalls {
    /// Runs the call guardrails on the calls of `batch`, and applies their decisions to it.
    async fn guard_calls(&self, batch: &mut Batch, context: &StepContext) {
        let calls = CallBatch {
            calls: batch.calls.iter().map(|call| call.call.clone()).collect(),
            denied: batch.calls.iter().filter_map(denied_call).collect(),
            ..CallBatch::default()
        };
        let unchecked: BTreeSet<_> =
            self.extensions.unchecked_calls(&calls).iter().map(|call| call.id.as_str()).collect();
        for call in batch.calls.iter_mut().filter(|call| unchecked.contains(call.call.id.as_str())) {
            let checked = self
                .extensions
                .check_call(&call.call, call.resumed.as_ref(), &self.pipeline, &self.tools, context)
                .await;
            let reason = match checked {
                Ok(outcome) => {
                    self.verdicts.log().reports.extend(outcome.reports);
                    match outcome.decision {
                        RulingDecision::Pass => continue,
                        RulingDecision::Rewrite(new) => {
                            replace_arguments(call, new.arguments);
                            continue;
                        }
                        RulingDecision::Block(text) => text,
                        RulingDecision::End => {
                            self.verdicts.log().has_ended = true;
                            "a guardrail ended the run".to_owned()
                        }
                    }
                }
                Err(error) => {
                    self.verdicts.fail(error);
                    "a guardrail failed".to_owned()
                }
            };
            call.denied = Some(reason);
        }
        if self.verdicts.has_ended() {
            for call in &mut batch.calls {
                call.denied.get_or_insert_with(|| "the run ends".to_owned());
            }
        }
    }
}

/// Returns the id of `call` and the reason why it is denied. `None` if it is not denied.
fn denied_call(call: &BatchCall) -> Option<(String, String)> {
    Some((call.call.id.clone(), call.denied.clone()?))
}

/// Replaces the arguments of `call`, or the arguments in the decision about it.
fn replace_arguments(call: &mut BatchCall, arguments: serde_json::Value) {
    if let Some(resumed) = &mut call.resumed {
        let decision = Decision::approved_with_arguments(arguments);
        // Only the arguments of an approval are replaced, so the decision fits.
        if let Ok(replaced) = resumed.pending().clone().resume(decision) {
            *resumed = replaced;
        }
        return;
    }
    call.call = ToolCall::new(call.call.id.as_str(), call.call.name.as_str(), arguments);
    call.is_repaired = true;
}

#[async_trait]
impl QueueHost for PushedCalls {
    fn tools(&self) -> &ToolList {
        &self.tools
    }

    fn pipeline(&self) -> Pipeline {
        self.pipeline.clone()
    }

    async fn before_calls(&self, batch: &mut Batch) {
        if let Some(context) = &self.context {
            self.guard_calls(batch, context).await;
        }
        for call in &batch.calls {
            self.events.emit(|| RunEvent::CallStarted { call: call.call.clone() }).await;
        }
    }

    async fn after_call(&self, outcome: CallOutcome) -> CallOutcome {
        let outcome = match (outcome, &self.context) {
            (CallOutcome::Finished(result), Some(context)) => {
                let unchecked = result.clone();
                match self.extensions.check_result(result, &self.tools, context).await {
                    Ok((result, reports)) => {
                        let mut log = self.verdicts.log();
                        log.has_ended |= reports.last().is_some_and(|it| it.action == GuardrailAction::End);
                        log.reports.extend(reports);
                        CallOutcome::Finished(result)
                    }
                    Err(error) => {
                        self.verdicts.fail(error);
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
