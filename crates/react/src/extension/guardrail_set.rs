//! Execution of the guardrails of all extensions.

use std::sync::Arc;

use futures::stream::{FuturesUnordered, StreamExt as _};
use haft_core::{
    Message, ToolCall, ToolResult,
    agent::{AgentErrorKind, GuardrailAction, GuardrailReport, GuardrailStage},
    call::{BoxError, FailureKind, Outcome, ResumedCall},
    pipeline::Pipeline,
    schema::RepairKind,
    text::ErrorChain,
    tool::ToolContext,
    toolset::ToolList,
};

use super::{
    ExtensionSet, StepContext,
    guardrail::{Check, CheckFn, GuardedCall, Guardrail, GuardrailFailure, Ruling},
    hook::{HookError, run_hook, with_extension_name},
};
use crate::{
    Output, OutputError,
    run::{CallBatch, GuardrailOutcome, InputCheck, NewArguments, RulingDecision},
};

impl ExtensionSet {
    /// Returns `true` if an extension has a guardrail at `stage`.
    pub fn has_guardrails(&self, stage: GuardrailStage) -> bool {
        self.guardrails_of(stage).next().is_some()
    }

    /// Runs the input guardrails on `check`, for
    /// [`Run::on_input_check`](crate::Run::on_input_check). Guardrails
    /// [in parallel](Guardrail::in_parallel) with the request run concurrently.
    ///
    /// # Errors
    ///
    /// Fails with [`AgentErrorKind::HookFailed`] if a guardrail fails, panics or exceeds its
    /// timeout. Fails with [`AgentErrorKind::Cancelled`] if the run is cancelled.
    pub async fn check_input(
        &self,
        check: &InputCheck,
        cx: &StepContext,
    ) -> Result<GuardrailOutcome<Vec<Message>>, AgentErrorKind> {
        let guardrails = self.guardrails_of(GuardrailStage::Input);
        let guardrails = guardrails.filter(|(guardrail, _)| guardrail.is_parallel == check.is_parallel);
        let rule = async |guardrail: &Guardrail, extension: &str, messages: Vec<Arc<Message>>| {
            match &guardrail.check {
                Check::Input(function) => self.rule(guardrail, extension, function, messages, None, cx).await,
                _ => Ok((RulingDecision::Pass, None)),
            }
        };
        let mut outcome = GuardrailOutcome { decision: RulingDecision::Pass, reports: Vec::new() };
        if check.is_parallel {
            let mut running: FuturesUnordered<_> = guardrails
                .map(|(guardrail, extension)| rule(guardrail, extension, check.messages.clone()))
                .collect();
            while let Some(ruled) = running.next().await {
                let (decision, report) = ruled?;
                outcome.reports.extend(report);
                if decision != RulingDecision::Pass {
                    outcome.decision = decision;
                    break;
                }
            }
            return Ok(outcome);
        }
        let mut messages = check.messages.clone();
        for (guardrail, extension) in guardrails {
            let (decision, report) = rule(guardrail, extension, messages.clone()).await?;
            outcome.reports.extend(report);
            match decision {
                RulingDecision::Pass => continue,
                RulingDecision::Rewrite(new) => {
                    messages = new.iter().cloned().map(Arc::new).collect();
                    outcome.decision = RulingDecision::Rewrite(new);
                }
                decision => {
                    outcome.decision = decision;
                    break;
                }
            }
        }
        Ok(outcome)
    }

    /// Runs the answer guardrails on `output`. [`validate`](Self::validate) calls this function
    /// after the validators.
    pub(super) async fn check_answer(&self, output: Output, cx: &StepContext) -> Result<Output, OutputError> {
        let (mut output, mut reports) = (output, Vec::new());
        for (guardrail, extension) in self.guardrails_of(GuardrailStage::Answer) {
            let Check::Answer(function) = &guardrail.check else { continue };
            let ruled = self.rule(guardrail, extension, function, output.clone(), None, cx).await;
            let (decision, report) = ruled.map_err(|kind| match kind {
                AgentErrorKind::HookFailed { source, .. } => OutputError::Failed(source),
                kind => OutputError::Failed(kind.into()),
            })?;
            reports.extend(report);
            match decision {
                RulingDecision::Pass => {}
                RulingDecision::Rewrite(new) => output = new,
                RulingDecision::Block(text) => return Err(OutputError::Blocked { text, reports }),
                RulingDecision::End => return Err(OutputError::Ended { reports }),
            }
        }
        output.guardrails = reports;
        Ok(output)
    }

    /// Returns the calls of `batch` that the call guardrails must [check](Self::check_call) before
    /// the batch is executed. Empty if the batch can be executed now.
    pub fn unchecked_calls<'a>(&self, batch: &'a CallBatch) -> Vec<&'a ToolCall> {
        if !self.has_guardrails(GuardrailStage::Call) {
            return Vec::new();
        }
        let is_unchecked = |call: &&ToolCall| {
            let is_closed = batch.guarded.contains(&call.id) || batch.denied.contains_key(&call.id);
            !is_closed && self.guardrails_of(GuardrailStage::Call).any(|it| it.0.applies_to(&call.name))
        };
        batch.calls.iter().filter(is_unchecked).collect()
    }

    /// Runs the call guardrails on `call`, before it is executed. `resumed` is the decision if the
    /// call was suspended. Returns the outcome for
    /// [`Run::on_call_check`](crate::Run::on_call_check). Before the guardrails, invalid arguments
    /// are [repaired](Pipeline::repair_arguments), also by the repair hooks. A call that is still
    /// invalid passes unchecked, because it does not run.
    ///
    /// A driver checks all [`unchecked_calls`](Self::unchecked_calls) of an
    /// [`Effect::Call`](crate::Effect::Call) before it executes any of them. It first
    /// [returns](crate::Run::return_calls) the calls to the run.
    ///
    /// # Errors
    ///
    /// Fails with [`AgentErrorKind::HookFailed`] if a guardrail fails, panics or exceeds its
    /// timeout. Fails with [`AgentErrorKind::Cancelled`] if the run is cancelled.
    pub async fn check_call(
        &self,
        call: &ToolCall,
        resumed: Option<&ResumedCall>,
        pipeline: &Pipeline,
        tools: &ToolList,
        cx: &StepContext,
    ) -> Result<GuardrailOutcome<NewArguments>, AgentErrorKind> {
        let mut outcome = GuardrailOutcome { decision: RulingDecision::Pass, reports: Vec::new() };
        let (received, repairs) = match resumed {
            // The other decisions are about checked arguments.
            Some(resumed) => match resumed.changed_arguments() {
                Some(changed) => (changed.clone(), Vec::new()),
                None => return Ok(outcome),
            },
            None => {
                let tool_context = ToolContext::new(Arc::clone(&cx.run), call.id.as_str());
                match pipeline.repair_arguments(tools, call, &tool_context).await {
                    Ok(repaired) => repaired,
                    Err(_) => return Ok(outcome),
                }
            }
        };
        let is_replaced = repairs.iter().any(|repair| repair.kind == RepairKind::Replaced);
        let mut arguments = received.clone();
        for (guardrail, extension) in self.guardrails_of(GuardrailStage::Call) {
            let Check::Call(function) = &guardrail.check else { continue };
            if !guardrail.applies_to(&call.name) {
                continue;
            }
            let (call_id, tool) = (call.id.clone(), call.name.clone());
            let guarded = GuardedCall { call_id, tool, arguments: arguments.clone() };
            let ruled = self.rule(guardrail, extension, function, guarded, Some(&call.id), cx).await;
            let (decision, report) = ruled?;
            outcome.reports.extend(report);
            match decision {
                RulingDecision::Pass => {}
                RulingDecision::Rewrite(new) => arguments = new,
                RulingDecision::Block(text) => {
                    outcome.decision = RulingDecision::Block(text);
                    return Ok(outcome);
                }
                RulingDecision::End => {
                    outcome.decision = RulingDecision::End;
                    return Ok(outcome);
                }
            }
        }
        // The arguments of a repair hook are stored, because the hook may return others next time.
        if is_replaced || arguments != received {
            outcome.decision = RulingDecision::Rewrite(NewArguments { arguments, repairs });
        }
        Ok(outcome)
    }

    /// Runs the result guardrails on `result`, before it is reported to
    /// [`Run::on_result`](crate::Run::on_result). Returns the result to report, and the reports for
    /// [`Run::record_guardrails`](crate::Run::record_guardrails). If the action of the last report
    /// is [`End`](GuardrailAction::End), the driver also ends the run with
    /// [`Run::end_by_guardrail`](crate::Run::end_by_guardrail).
    ///
    /// # Errors
    ///
    /// Fails with [`AgentErrorKind::HookFailed`] if a guardrail fails, panics or exceeds its
    /// timeout, or if a rewritten output does not fit the output schema of the tool. Fails with
    /// [`AgentErrorKind::Cancelled`] if the run is cancelled.
    pub async fn check_result(
        &self,
        mut result: ToolResult,
        tools: &ToolList,
        cx: &StepContext,
    ) -> Result<(ToolResult, Vec<GuardrailReport>), AgentErrorKind> {
        let mut reports = Vec::new();
        for (guardrail, extension) in self.guardrails_of(GuardrailStage::CallResult) {
            let Check::Result(function) = &guardrail.check else { continue };
            if !guardrail.applies_to(&result.name) {
                continue;
            }
            let id = result.call_id.clone();
            let ruled = self.rule(guardrail, extension, function, result.clone(), Some(&id), cx).await;
            let (decision, report) = ruled?;
            reports.extend(report);
            let text = match decision {
                RulingDecision::Pass => continue,
                RulingDecision::Rewrite(output) => {
                    let definition = tools.get(&result.name).map(|tool| tool.definition());
                    let checked = definition.map_or(Ok(()), |it| it.check_output(&output));
                    checked.map_err(|error| guardrail.failure(extension, error.into()))?;
                    result.outcome = Outcome::Done(output);
                    continue;
                }
                RulingDecision::Block(text) => text,
                RulingDecision::End => "a guardrail withheld the result and ended the run".to_owned(),
            };
            let failure = haft_core::call::Failure::new(FailureKind::Failed, text);
            result.outcome = Outcome::Failed(failure);
            result.warnings.clear();
            break;
        }
        Ok((result, reports))
    }

    fn guardrails_of(&self, stage: GuardrailStage) -> impl Iterator<Item = (&Guardrail, &str)> {
        let guardrails = self.extensions.iter().flat_map(|extension| {
            extension.guardrails.iter().map(|guardrail| (guardrail, extension.name.as_str()))
        });
        guardrails.filter(move |(guardrail, _)| guardrail.stage() == stage)
    }

    /// Runs one guardrail. Returns its decision and its report. There is no report for a call or a
    /// result that passes without information, because a run may have thousands of them.
    async fn rule<In: Send + 'static, Out: Send + 'static>(
        &self,
        guardrail: &Guardrail,
        extension: &str,
        function: &CheckFn<In, Out>,
        data: In,
        call_id: Option<&str>,
        cx: &StepContext,
    ) -> Result<(RulingDecision<Out>, Option<GuardrailReport>), AgentErrorKind> {
        let cx = cx.for_extension(extension);
        let function = Arc::clone(function);
        let timeout = guardrail.timeout.unwrap_or(self.hook_timeout);
        let ruled = run_hook(timeout, &cx, move |cx| function(data, cx)).await;
        let ruled = match ruled {
            Ok(ruled) => ruled,
            // A cancellation is no failure of the guardrail.
            Err(HookError::Cancelled) => return Err(AgentErrorKind::Cancelled),
            Err(error) => Err(error.into()),
        };
        let (ruling, action) = match ruled {
            Ok(ruling) => {
                let action = ruling.decision.action();
                (ruling, action)
            }
            Err(error) if guardrail.fails_open => {
                tracing::warn!(
                    guardrail = &*guardrail.name,
                    "a guardrail failed, and its failure is ignored"
                );
                let information = ErrorChain(&*error).to_string();
                (Ruling::pass().with_information(information), GuardrailAction::Failed)
            }
            Err(error) => return Err(guardrail.failure(extension, error)),
        };
        let stage = guardrail.stage();
        let Ruling { decision, information } = ruling;
        let is_brief = call_id.is_some() && action == GuardrailAction::Pass && information.is_null();
        let report = (!is_brief).then(|| GuardrailReport {
            guardrail: guardrail.name.to_string(),
            stage,
            action,
            information,
            call_id: call_id.map(str::to_owned),
        });
        Ok((decision, report))
    }
}

impl Guardrail {
    /// Returns the error that ends the run after the failure `source` of this guardrail.
    fn failure(&self, extension: &str, source: BoxError) -> AgentErrorKind {
        let source = with_extension_name(extension, source);
        let failure = GuardrailFailure { guardrail: self.name.to_string(), source };
        let hook = match self.stage() {
            GuardrailStage::Input => "input guardrail",
            GuardrailStage::Answer => "answer guardrail",
            GuardrailStage::Call => "call guardrail",
            _ => "result guardrail",
        };
        AgentErrorKind::HookFailed { hook, source: failure.into() }
    }
}
