//! The hooks of an agent, in order, and their execution.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use haft_core::{
    Message, ToolCall, ToolResult,
    agent::{AgentErrorKind, AgentStep, GuardrailAction, GuardrailReport, GuardrailStage},
    call::{BoxError, Failure, FailureKind, Outcome},
    message::TranscriptView,
    pipeline::Pipeline,
    schema::RepairKind,
    text::ErrorChain,
    tool::ToolContext,
    toolset::ToolList,
};
use serde_json::Value;

use super::{
    CallArguments, Guardrail, Hook, HookContext, HookEvent, HookFailure, HookResult, Judgement, RequestDraft,
    Verdict, run_hook, run_hook::HookError,
};
use crate::{
    dialect::Reply,
    output::Output,
    run::{Checks, NewArguments, ReadyCall},
    transcript::{find_unpaired_call, is_from_user},
};

/// A hook of an agent, with the settings of a guardrail.
#[derive(Clone)]
pub(crate) struct NamedHook {
    /// The name of the extension. Empty for hooks of the builder.
    extension: Arc<str>,
    name: Arc<str>,
    /// The kind of the hook in errors. `None` for the kind of its event.
    kind: Option<&'static str>,
    hook: Arc<dyn Hook>,
    timeout: Option<Duration>,
    fails_open: bool,
    tools: Option<Arc<BTreeSet<String>>>,
}

/// The hooks of an agent, in order.
#[derive(Clone, Default)]
pub(crate) struct HookSet {
    hooks: Vec<NamedHook>,
    /// The maximum duration of each run of a hook.
    pub(crate) timeout: Duration,
}

/// Data that hooks judge, and its replacement by a hook.
struct Subject<'a> {
    event: HookEvent,
    /// The id of the call and the name of its tool, for calls and results.
    call: Option<(&'a str, &'a str)>,
}

impl NamedHook {
    pub(crate) fn new(hook: Arc<dyn Hook>) -> Self {
        let name = hook.name().into();
        let (timeout, fails_open, tools) = (None, false, None);
        Self { extension: Arc::from(""), name, kind: None, hook, timeout, fails_open, tools }
    }

    /// Sets the kind of the hook in errors.
    pub(crate) fn of_kind(self, kind: &'static str) -> Self {
        Self { kind: Some(kind), ..self }
    }

    pub(crate) fn of_extension(self, extension: &str) -> Self {
        Self { extension: extension.into(), ..self }
    }

    fn applies_to(&self, subject: &Subject<'_>) -> bool {
        let has_tool = match (&self.tools, subject.call) {
            (Some(tools), Some((_, tool))) => tools.contains(tool),
            _ => true,
        };
        has_tool && self.hook.runs_at(subject.event)
    }

    /// Returns the error that ends the run after the failure `source` of this hook.
    fn failure(&self, event: HookEvent, source: BoxError) -> AgentErrorKind {
        let source = match (&*self.name, &*self.extension) {
            ("", "") => source,
            (hook, extension) => HookFailure::new(hook, extension, source).into(),
        };
        AgentErrorKind::HookFailed { hook: self.kind.unwrap_or(event.name()), source }
    }
}

impl From<Guardrail> for NamedHook {
    fn from(guardrail: Guardrail) -> Self {
        let Guardrail { name, closure, timeout, fails_open, tools } = guardrail;
        Self { name, timeout, fails_open, tools, ..Self::new(Arc::new(closure)) }
    }
}

impl HookEvent {
    /// Returns the name of the hooks of this event in errors.
    fn name(self) -> &'static str {
        match self {
            Self::Input => "input hook",
            Self::Request => "request hook",
            Self::Reply => "reply hook",
            Self::Call => "call hook",
            Self::Result => "result hook",
            Self::Results => "results hook",
            Self::Answer => "answer hook",
        }
    }

    /// Returns `false` for the events before a request that would be sent in any case.
    fn can_be_retried(self) -> bool {
        !matches!(self, Self::Input | Self::Request)
    }

    fn stage(self) -> GuardrailStage {
        match self {
            Self::Input => GuardrailStage::Input,
            Self::Request => GuardrailStage::Request,
            Self::Reply => GuardrailStage::Reply,
            Self::Call => GuardrailStage::Call,
            Self::Result => GuardrailStage::CallResult,
            Self::Results => GuardrailStage::CallResults,
            Self::Answer => GuardrailStage::Answer,
        }
    }
}

impl HookSet {
    pub(crate) fn new(hooks: Vec<NamedHook>, timeout: Duration) -> Self {
        Self { hooks, timeout }
    }

    /// Returns `true` if a hook runs at `event`.
    pub(crate) fn has(&self, event: HookEvent) -> bool {
        self.hooks.iter().any(|named| named.hook.runs_at(event))
    }

    /// Returns the data that the hooks judge with [`Effect::Check`](crate::Effect::Check).
    pub(crate) fn checks(&self) -> Checks {
        Checks {
            input: self.has(HookEvent::Input),
            calls: self.has(HookEvent::Call),
            results: self.has(HookEvent::Results),
            answer: self.has(HookEvent::Answer),
        }
    }

    pub(crate) async fn judge_input(
        &self,
        messages: Vec<Arc<Message>>,
        cx: &HookContext,
    ) -> Result<Judgement<Vec<Message>>, AgentErrorKind> {
        let subject = Subject { event: HookEvent::Input, call: None };
        let run = |hook: Arc<dyn Hook>, data, cx: HookContext| async move { hook.on_input(data, &cx).await };
        let replace = |data: &mut Vec<Arc<Message>>, new: Vec<Message>| {
            if new.len() != data.len() || !new.iter().all(is_from_user) {
                return Err("a hook must replace each message of the user by one message of the user".into());
            }
            *data = new.into_iter().map(Arc::new).collect();
            Ok(())
        };
        let Judgement { verdict, reports } = self.judge(subject, messages, cx, run, replace).await?;
        let owned = |data: Vec<Arc<Message>>| data.into_iter().map(Arc::unwrap_or_clone).collect();
        Ok(Judgement { verdict: verdict.map(owned), reports })
    }

    /// Judges and changes the request `draft`. A hook must keep each call with its result.
    pub(crate) async fn judge_request(
        &self,
        draft: RequestDraft,
        cx: &HookContext,
    ) -> Result<(RequestDraft, Judgement), AgentErrorKind> {
        if !self.has(HookEvent::Request) {
            return Ok((draft, Judgement::default()));
        }
        let subject = Subject { event: HookEvent::Request, call: None };
        let run =
            |hook: Arc<dyn Hook>, data, cx: HookContext| async move { hook.before_request(data, &cx).await };
        let replace = |data: &mut RequestDraft, new: RequestDraft| {
            new.check_origin(data)?;
            if let Some(problem) = find_problem(&data.messages, &new.messages) {
                return Err(problem.into());
            }
            *data = new;
            Ok(())
        };
        let (changed, judgement) = self.judge(subject, draft.clone(), cx, run, replace).await?.split();
        Ok((changed.unwrap_or(draft), judgement))
    }

    pub(crate) async fn judge_reply(
        &self,
        reply: Reply,
        cx: &HookContext,
    ) -> Result<(Reply, Judgement), AgentErrorKind> {
        let subject = Subject { event: HookEvent::Reply, call: None };
        let run =
            |hook: Arc<dyn Hook>, data, cx: HookContext| async move { hook.after_reply(data, &cx).await };
        let (usage, had_calls) = (reply.usage, !reply.message.tool_calls.is_empty());
        let replace = |data: &mut Reply, new: Reply| {
            *data = Reply { usage, ..new };
            if had_calls && data.message.is_empty() {
                // This text is sent to the model.
                let problem = || "Your calls are not allowed. Do something else, or answer.".to_owned();
                data.problem.get_or_insert_with(problem);
            }
            Ok(())
        };
        let (changed, judgement) = self.judge(subject, reply.clone(), cx, run, replace).await?.split();
        Ok((changed.unwrap_or(reply), judgement))
    }

    /// Judges the arguments of `ready`, a call to a tool in `tools`. Before the hooks, invalid
    /// arguments are repaired by `pipeline`. A call that is still invalid passes, because it does
    /// not run.
    pub(crate) async fn judge_call(
        &self,
        ready: &ReadyCall,
        pipeline: &Pipeline,
        tools: &ToolList,
        cx: &HookContext,
    ) -> Result<Judgement<NewArguments>, AgentErrorKind> {
        let Some((received, repairs)) = arguments_of(ready, pipeline, tools, cx).await else {
            return Ok(Judgement::default());
        };
        let (id, tool) = (&ready.call.id, &ready.call.name);
        let subject = Subject { event: HookEvent::Call, call: Some((id, tool)) };
        let call = CallArguments { call_id: id.clone(), tool: tool.clone(), arguments: received.clone() };
        let run =
            |hook: Arc<dyn Hook>, data, cx: HookContext| async move { hook.before_call(data, &cx).await };
        let replace = |data: &mut CallArguments, new: Value| {
            data.arguments = new;
            Ok(())
        };
        let Judgement { verdict, reports } = self.judge(subject, call, cx, run, replace).await?;
        // The arguments of a repair hook are stored, because the hook may return others next time.
        let is_repaired = repairs.iter().any(|repair| repair.kind == RepairKind::Replaced);
        let verdict = match verdict {
            Verdict::Pass if is_repaired => Verdict::Replace(NewArguments { arguments: received, repairs }),
            verdict => verdict.map(|call| NewArguments { arguments: call.arguments, repairs }),
        };
        Ok(Judgement { verdict, reports })
    }

    /// Judges `result`. Returns the result to record. The verdict is [`Verdict::Pass`], or
    /// [`Verdict::End`] if a hook ends the run.
    pub(crate) async fn judge_result(
        &self,
        mut result: ToolResult,
        tools: &ToolList,
        cx: &HookContext,
    ) -> Result<(ToolResult, Judgement), AgentErrorKind> {
        let (id, name) = (result.call_id.clone(), result.name.clone());
        let subject = Subject { event: HookEvent::Result, call: Some((&id, &name)) };
        let run =
            |hook: Arc<dyn Hook>, data, cx: HookContext| async move { hook.after_call(data, &cx).await };
        let replace = |data: &mut ToolResult, new| {
            let definition = tools.get(&name).map(|tool| tool.definition());
            definition.map_or(Ok(()), |it| it.check_output(&new))?;
            data.outcome = Outcome::Done(new);
            Ok(())
        };
        let Judgement { verdict, reports } = self.judge(subject, result.clone(), cx, run, replace).await?;
        let mut fail = |kind, text| {
            result.outcome = Outcome::Failed(Failure::new(kind, text));
            result.warnings.clear();
            Verdict::Pass
        };
        let verdict = match verdict {
            Verdict::Pass => Verdict::Pass,
            Verdict::Replace(new) => {
                result = new;
                Verdict::Pass
            }
            Verdict::Retry(text) => fail(FailureKind::Retry, text),
            Verdict::Block(text) => fail(FailureKind::Failed, text),
            Verdict::End(reason) => {
                let text = "a guardrail withheld the result and ended the run".to_owned();
                fail(FailureKind::Failed, text);
                Verdict::End(reason)
            }
        };
        Ok((result, Judgement { verdict, reports }))
    }

    /// Judges the results of a reply. `check` checks the output of a hook, the answer of the run.
    pub(crate) async fn judge_results(
        &self,
        calls: Arc<[AgentStep]>,
        cx: &HookContext,
        check: impl Fn(Output) -> Result<Output, BoxError>,
    ) -> Result<Judgement<Output>, AgentErrorKind> {
        let subject = Subject { event: HookEvent::Results, call: None };
        let mut output = None;
        let run =
            |hook: Arc<dyn Hook>, data, cx: HookContext| async move { hook.after_calls(data, &cx).await };
        // The first hook with an output decides.
        let replace = |_: &mut Arc<[AgentStep]>, new: Output| {
            let new = check(new)?;
            output.get_or_insert(new);
            Ok(())
        };
        let Judgement { verdict, reports } = self.judge(subject, calls, cx, run, replace).await?;
        let verdict = match (verdict.split(), output) {
            ((_, Verdict::Pass | Verdict::Replace(())), Some(output)) => Verdict::Replace(output),
            ((_, verdict), _) => verdict.map(|()| Output::new("")),
        };
        Ok(Judgement { verdict, reports })
    }

    /// Judges an answer. `check` checks the output of a hook against the judged output.
    pub(crate) async fn judge_answer(
        &self,
        output: Output,
        cx: &HookContext,
        check: impl Fn(&Output, Output) -> Result<Output, BoxError>,
    ) -> Result<Judgement<Output>, AgentErrorKind> {
        let subject = Subject { event: HookEvent::Answer, call: None };
        let run = |hook: Arc<dyn Hook>, data, cx: HookContext| async move { hook.on_answer(data, &cx).await };
        let replace = |data: &mut Output, new| {
            *data = check(data, new)?;
            Ok(())
        };
        self.judge(subject, output, cx, run, replace).await
    }

    /// Runs the hooks of an event on `data`, in order. `run` runs one hook, and `replace` applies
    /// its replacement.
    async fn judge<T, New, Fut>(
        &self,
        subject: Subject<'_>,
        mut data: T,
        cx: &HookContext,
        run: impl Fn(Arc<dyn Hook>, T, HookContext) -> Fut + Send + Sync + Clone + 'static,
        mut replace: impl FnMut(&mut T, New) -> Result<(), BoxError>,
    ) -> Result<Judgement<T>, AgentErrorKind>
    where
        T: Clone + Send + 'static,
        New: Send + 'static,
        Fut: Future<Output = HookResult<New>> + Send + 'static,
    {
        let (mut reports, mut is_replaced) = (Vec::new(), false);
        for named in self.hooks.iter().filter(|named| named.applies_to(&subject)) {
            let (hook, input, run) = (Arc::clone(&named.hook), data.clone(), run.clone());
            let cx = cx.for_extension(&named.extension);
            let timeout = named.timeout.unwrap_or(self.timeout);
            let ended = run_hook(timeout, &cx, move |cx| run(hook, input, cx)).await;
            let judged = match ended {
                // A cancellation is no failure of the hook.
                Err(HookError::Cancelled) => return Err(AgentErrorKind::Cancelled),
                Err(error) => Err(error.into()),
                Ok(judged) => judged,
            };
            let verdict = match judged {
                Ok(verdict) => verdict,
                Err(error) if named.fails_open => {
                    reports.push(named.ignore(&subject, &*error));
                    continue;
                }
                Err(error) => return Err(named.failure(subject.event, error)),
            };
            let information = cx.take_information();
            reports.extend(named.report_of(&subject, &verdict, information));
            match verdict {
                Verdict::Pass => {}
                Verdict::Replace(new) => match replace(&mut data, new) {
                    Ok(()) => is_replaced = true,
                    Err(error) if named.fails_open => reports.push(named.ignore(&subject, &*error)),
                    Err(error) => return Err(named.failure(subject.event, error)),
                },
                Verdict::Retry(_) if !subject.event.can_be_retried() => {
                    let problem =
                        "nothing can be retried at this event: replace the data, block it, or end the run";
                    return Err(named.failure(subject.event, problem.into()));
                }
                other => return Ok(Judgement { verdict: other.split().1.map(|()| data), reports }),
            }
        }
        Ok(Judgement { verdict: if is_replaced { Verdict::Replace(data) } else { Verdict::Pass }, reports })
    }
}

impl NamedHook {
    /// Returns the report of a verdict. `None` for a hook without a name, unless it blocks or ends
    /// the run, and for a call or a result that passes without information, because a run may have
    /// thousands of them.
    fn report_of<T>(
        &self,
        subject: &Subject<'_>,
        verdict: &Verdict<T>,
        information: Value,
    ) -> Option<GuardrailReport> {
        let (action, reason) = match verdict {
            Verdict::Pass => (GuardrailAction::Pass, None),
            Verdict::Replace(_) => (GuardrailAction::Rewrite, None),
            Verdict::Retry(_) => (GuardrailAction::Retry, None),
            Verdict::Block(_) => (GuardrailAction::Block, None),
            Verdict::End(reason) => (GuardrailAction::End, Some(reason)),
        };
        let is_final = matches!(action, GuardrailAction::Block | GuardrailAction::End);
        let is_brief = action == GuardrailAction::Pass
            && information.is_null()
            && !matches!(subject.event, HookEvent::Input | HookEvent::Answer);
        if is_brief || (self.name.is_empty() && !is_final) {
            return None;
        }
        let information = match (information, reason) {
            (Value::Null, Some(reason)) => reason.as_str().into(),
            (information, _) => information,
        };
        Some(self.report(subject, action, information))
    }

    /// Returns the report of the ignored failure `error` of this hook.
    fn ignore(
        &self,
        subject: &Subject<'_>,
        error: &(dyn std::error::Error + Send + Sync + 'static),
    ) -> GuardrailReport {
        tracing::warn!(hook = &*self.name, "a hook failed, and its failure is ignored");
        self.report(subject, GuardrailAction::Failed, ErrorChain(error).to_string().into())
    }

    /// Returns the name of the hook, of its extension, or of its kind.
    fn report_name(&self, event: HookEvent) -> &str {
        match (&*self.name, &*self.extension) {
            ("", "") => self.kind.unwrap_or(event.name()),
            ("", extension) => extension,
            (name, _) => name,
        }
    }

    fn report(&self, subject: &Subject<'_>, action: GuardrailAction, information: Value) -> GuardrailReport {
        GuardrailReport {
            guardrail: self.report_name(subject.event).to_owned(),
            stage: subject.event.stage(),
            action,
            information,
            call_id: subject.call.map(|(id, _)| id.to_owned()),
        }
    }
}

/// Returns the arguments of `ready` that the hooks judge, and their repairs. `None` if the call
/// does not run, or if the hooks have judged its arguments before a decision was made about it.
async fn arguments_of(
    ready: &ReadyCall,
    pipeline: &Pipeline,
    tools: &ToolList,
    cx: &HookContext,
) -> Option<(Value, Vec<haft_core::schema::Repair>)> {
    if let Some(resumed) = &ready.resumed {
        return resumed.changed_arguments().map(|changed| (changed.clone(), Vec::new()));
    }
    let call: &ToolCall = &ready.call;
    let tool_context = ToolContext::new(Arc::clone(&cx.run), call.id.as_str());
    pipeline.repair_arguments(tools, call, &tool_context).await.ok()
}

/// Returns the reason why the messages `after` of a request cannot be sent. `None` if they are
/// unchanged, or if `before` already has an unpaired call and `after` is not empty.
fn find_problem(before: &TranscriptView, after: &TranscriptView) -> Option<String> {
    if before.iter().map(Arc::as_ptr).eq(after.iter().map(Arc::as_ptr)) {
        return None;
    }
    if after.is_empty() {
        return Some("no message is left".to_owned());
    }
    find_unpaired_call(after).filter(|_| find_unpaired_call(before).is_none())
}
