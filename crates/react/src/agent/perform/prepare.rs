//! Preparation of a model request.

use std::{collections::BTreeSet, sync::Arc};

use haft_core::{
    Tool,
    agent::AgentErrorKind,
    call::BoxError,
    model::ToolChoice,
    toolset::{ListContext, ToolList},
};

use super::{LastOutcome, OutcomeSender, Performer, send, send_messages};
use crate::{
    Dialect, Outcome, Run,
    agent::{scope::StepInputs, with_prices},
    dialect::dialect_for,
    hook::{HookContext, Judgement, RequestDraft, Verdict, join_instructions, run_host_code},
    host_panic::{catch_dialect_panic, catch_panic, profile_of},
    run::PreparedRequest,
};

impl Performer {
    /// Performs [`Effect::Prepare`](crate::Effect::Prepare). New messages are reported instead, and
    /// become part of the request.
    pub(super) async fn prepare_request(self: Box<Self>, outcomes: OutcomeSender) -> LastOutcome {
        self.scope.mailbox().check_stop()?;
        let messages = self.scope.mailbox().take_next(&self.run);
        if !messages.is_empty() {
            send_messages(messages, &outcomes).await;
            return Ok(None);
        }
        let prepared = self.prepare().await?.1;
        // The hooks can have stopped the run.
        self.scope.mailbox().check_stop()?;
        // A limit of an enclosing run forbids the final request as well.
        self.scope.budget().take_request().map_err(AgentErrorKind::LimitReached)?;
        Ok(Some(Outcome::Prepared(prepared)))
    }

    /// Returns the inputs of the current step. Prepares them if this process has not done so, for
    /// example because it has loaded the run. Fails if a request hook then blocks the request or
    /// ends the run.
    pub(super) async fn inputs(&self, outcomes: &OutcomeSender) -> Result<StepInputs, AgentErrorKind> {
        if let Some(inputs) = self.scope.inputs() {
            return Ok(inputs);
        }
        let (inputs, PreparedRequest { judgement, .. }) = self.prepare().await?;
        let Judgement { verdict, reports } = judgement;
        let deciding = reports.last().filter(|_| matches!(verdict, Verdict::Block(_) | Verdict::End(_)));
        if let Some(report) = deciding.cloned() {
            self.scope.forget_inputs();
            return Err(AgentErrorKind::Guardrail { report: Box::new(report), reports });
        }
        if !reports.is_empty() {
            send(outcomes, Outcome::Judged(Judgement { verdict: Verdict::Pass, reports })).await;
        }
        Ok(inputs)
    }

    /// Lists the tools, runs the request hooks, and stores the inputs of the request in the scope.
    async fn prepare(&self) -> Result<(StepInputs, PreparedRequest), AgentErrorKind> {
        let agent = &self.agent.0;
        let (run_id, state) = (self.context.run_id.clone(), self.context.state.clone());
        let tools = agent.tools.list(&ListContext { step: self.run.step(), run_id, state }).await;
        let cx = self.hook_context();
        let tools = self.without_disabled_handoffs(tools, &cx).await?;
        let config = self.run.config();
        let mut draft = RequestDraft::new(&tools, self.run.tool_choice().clone(), config.settings.clone());
        draft.messages = self.run.view();
        let before = draft.messages.clone();
        let (draft, judgement) = agent.hooks.judge_request(draft, &cx).await?;
        let failed = |problem: BoxError| AgentErrorKind::HookFailed { hook: "request hook", source: problem };
        draft.check_fixed_names(&config.handoff_tools).map_err(|problem| failed(problem.into()))?;
        let is_changed = !before.iter().map(Arc::as_ptr).eq(draft.messages.iter().map(Arc::as_ptr));
        let model_dialect = draft.model.as_deref().map(profile_of).transpose();
        let model_dialect = model_dialect.map_err(|panic| failed(panic.into()))?.map(dialect_for);
        let dialect = draft.dialect.clone().or(model_dialect).unwrap_or_else(|| Arc::clone(&agent.dialect));
        let mut inputs = StepInputs {
            tools: draft.prepared_tools(&agent.prepared_lists),
            instructions: join_instructions(agent.instructions.clone(), &draft.instructions),
            tool_choice: draft.tool_choice,
            settings: draft.settings,
            // The model of the agent already has the prices of the agent.
            model: match draft.model {
                Some(model) => with_prices(model, agent.prices.as_ref()),
                None => Arc::clone(&agent.model),
            },
            dialect,
            messages: is_changed.then_some(draft.messages),
        };
        // A tool of a source of the agent is replaced by the dialect of the agent.
        let is_known = Arc::ptr_eq(&inputs.dialect, &agent.dialect)
            && reserved_name(&self.run, &*agent.dialect, &tools).is_some();
        if !is_known && let Some((dialect, name)) = reserved_name(&self.run, &*inputs.dialect, &inputs.tools)
        {
            return Err(failed(
                format!(
                    "no tool can be named {name:?} in this step: the dialect {dialect} ends a run by this name"
                )
                .into(),
            ));
        }
        inputs.tool_choice = effective_tool_choice(&self.run, inputs.tool_choice, &inputs.tools)?;
        let prepared = PreparedRequest { judgement, ..self.describe(&inputs)? };
        self.scope.set_inputs(&mut inputs);
        Ok((inputs, prepared))
    }

    /// Returns the properties of the request that the run needs.
    fn describe(&self, inputs: &StepInputs) -> Result<PreparedRequest, AgentErrorKind> {
        let dialect = current_dialect(&self.run, &inputs.dialect)?;
        let reserved = || catch_dialect_panic("Dialect::reserved_name", || dialect.reserved_name(None));
        let is_before_extraction = self.run.config().outputs.is_some() && self.run.answer_schema().is_none();
        Ok(PreparedRequest {
            tool_choice: inputs.tool_choice.clone(),
            has_tools: !inputs.tools.is_empty(),
            has_bare_finish: is_before_extraction && reserved()?.is_some(),
            has_fallback: catch_dialect_panic("Dialect::fallback", || dialect.fallback().is_some())?,
            ..PreparedRequest::default()
        })
    }

    /// Returns `tools` without the hand-off tools whose condition is not met in this step.
    async fn without_disabled_handoffs(
        &self,
        tools: ToolList,
        cx: &HookContext,
    ) -> Result<ToolList, AgentErrorKind> {
        let mut disabled = BTreeSet::new();
        for (tool, condition) in &self.agent.0.handoff_conditions {
            let condition = Arc::clone(condition);
            let timeout = self.agent.0.hooks.timeout;
            let cx = cx.for_extension("");
            if !run_host_code("hand-off condition", timeout, &cx, move |cx| condition(cx)).await? {
                disabled.insert(tool.as_str());
            }
        }
        if disabled.is_empty() {
            return Ok(tools);
        }
        let is_offered = |tool: &Arc<dyn Tool>| !disabled.contains(tool.definition().name().as_str());
        Ok(tools.filter_map(|tool| is_offered(tool).then(|| Arc::clone(tool))))
    }
}

/// Returns the dialect of the request: `dialect`, or its fallback if `run` uses it.
pub(super) fn current_dialect<'d>(
    run: &Run,
    dialect: &'d Arc<dyn Dialect>,
) -> Result<&'d dyn Dialect, AgentErrorKind> {
    catch_dialect_panic("Dialect::fallback", || {
        dialect.fallback().filter(|_| run.uses_fallback_dialect()).unwrap_or(&**dialect)
    })
}

/// Returns the tool choice of a request with `tools`. Fails if the chosen tool is not available, or
/// if a call is required and there are no tools.
fn effective_tool_choice(
    run: &Run,
    choice: ToolChoice,
    tools: &ToolList,
) -> Result<ToolChoice, AgentErrorKind> {
    if run.must_answer() {
        return Ok(ToolChoice::Auto);
    }
    let required = match &choice {
        ToolChoice::Required if tools.is_empty() => "a tool".to_owned(),
        ToolChoice::Tool(name) if tools.get(name.as_str()).is_none() => format!("{:?}", name.as_str()),
        _ => return Ok(choice),
    };
    let available = tools.names().map(ToString::to_string).collect();
    Err(AgentErrorKind::UnavailableToolChoice { required, available })
}

/// Returns the names of the dialect and of the tool if a tool has the name that `dialect` reserves.
/// A source may have added the tool since the agent was built, or a hook may have renamed a tool or
/// replaced the dialect.
fn reserved_name(run: &Run, dialect: &dyn Dialect, tools: &ToolList) -> Option<(&'static str, &'static str)> {
    let outputs = run.config().outputs.as_ref();
    // A dialect that panics here fails again, with an error, when it builds the request.
    let names = || Some((dialect.name(), dialect.reserved_name(outputs)?));
    let names = catch_panic("Dialect::reserved_name", names).ok()??;
    tools.get(names.1).is_some().then_some(names)
}
