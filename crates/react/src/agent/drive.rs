//! The driver of a run. It performs the effects of the run, and reports their outcomes.

use std::{ops::ControlFlow, pin::pin, sync::Arc, time::Duration};

use futures::stream::StreamExt as _;
use haft_core::{
    RunEvent, RunInput, RunOutput,
    agent::{AgentError, AgentErrorKind, AgentStep, GuardrailStage},
    call::FailureKind,
    message::TranscriptView,
    model::{ChatRequest, ModelError},
    pipeline::CallOutcome,
    tool::RunContext,
    toolset::ToolList,
};
use tokio::runtime::Handle;
use tracing::Instrument as _;

use super::{
    ReactAgent,
    clock::{Clock, with_time_limit},
    deprecation_warnings::DeprecationWarnings,
    events::{EventSink, ProgressRelay},
    guardrails::{CheckedReply, ParallelCheck},
    run_handle::Mailbox,
    task_flag::TaskFlag,
};
use crate::{
    Effect, Output, Run, Step, compaction,
    dialect::Reply,
    extension::{Entries, StepContext, StepInputs},
    host_panic::model_name,
    queue::QueueScope,
    run::{CallBatch, CallReview, RunBudget, RunState, ViewChange},
};

/// A predicate that the driver calls when it starts and at each step boundary. If it returns
/// `true`, the agent stops driving the run, for example because another agent takes over.
pub(crate) type StopCondition<'a> = &'a (dyn Fn(&Run) -> bool + Send + Sync);

/// The parts of a driven run that its effects share.
pub(super) struct DriveScope<'a> {
    /// The context of the run, with the additions of [`ReactAgent::call_context`].
    pub(super) context: Arc<RunContext>,
    pub(super) entries: &'a Entries,
    pub(super) events: &'a EventSink,
    pub(super) budget: &'a RunBudget,
    pub(super) tasks: &'a TaskFlag,
}

impl DriveScope<'_> {
    /// Creates the context of a hook. It shares the messages of `run`, so it must be dropped before
    /// a message is added.
    pub(super) fn step_context(&self, run: &Run) -> StepContext {
        StepContext::new(run, &self.context, self.entries)
    }
}

impl ReactAgent {
    /// Creates a run from `input`, and drives it until it ends or is suspended.
    pub(super) async fn run_to_end(
        &self,
        input: RunInput,
        events: &EventSink,
    ) -> Result<RunOutput, AgentError> {
        let context = input.context.clone();
        // Dropping the mailbox closes the handle, even if no run can be created.
        let mailbox = Mailbox::attach(&context);
        let mut run = self.create_run(input)?;
        let output = self.drive_until(&mut run, context, events, &mailbox, &|_| false).await;
        if output.is_err() {
            // The run is dropped below. Cancel it first, so that `close` returns its undelivered
            // messages to the handle.
            run.cancel();
        }
        mailbox.close(&run);
        output?.ok_or_else(|| AgentErrorKind::Incomplete.into())
    }

    /// Drives `run` until it ends or is suspended. Delivers messages sent through the
    /// [`RunHandle`](super::RunHandle) in `context` to the run. After an error, the caller can
    /// continue the run.
    pub(crate) async fn drive_to_end(
        &self,
        run: &mut Run,
        context: RunContext,
        events: &EventSink,
    ) -> Result<RunOutput, AgentError> {
        let mailbox = Mailbox::attach(&context);
        let output = self.drive_until(run, context, events, &mailbox, &|_| false).await;
        mailbox.close(run);
        output?.ok_or_else(|| AgentErrorKind::Incomplete.into())
    }

    /// Drives `run` until it ends or is suspended. Returns `None` if `until` returns `true` at the
    /// start or at an earlier step boundary. Cancelling `context` [cancels](Run::cancel) the run,
    /// which closes its open calls, after the tasks of tools and hooks have
    /// [ended](TaskFlag::wait_for_end).
    pub(crate) async fn drive_until(
        &self,
        run: &mut Run,
        mut context: RunContext,
        events: &EventSink,
        mailbox: &Mailbox,
        until: StopCondition<'_>,
    ) -> Result<Option<RunOutput>, AgentError> {
        run.apply_approvals(&mut context);
        let cancellation = context.cancellation.clone();
        let budget = RunBudget::attach(&context, run);
        let entries = Entries::new(run.extension_entries().clone());
        let context = RunContext { state: context.state.with_value(entries.clone()), ..context };
        let span = tracing::info_span!(
            "invoke_agent",
            gen_ai.operation.name = "invoke_agent",
            gen_ai.request.model = model_name(&*self.0.model),
            haft.run.id = context.run_id,
        );
        let (tasks, mut parallel) = (TaskFlag::default(), ParallelCheck::default());
        let context = Arc::new(self.call_context(context, &budget, events));
        let scope = DriveScope { context, entries: &entries, events, budget: &budget, tasks: &tasks };
        let result = async {
            let mut work = pin!(self.perform_effects(run, mailbox, &scope, &mut parallel, until));
            tokio::select! {
                // `biased`: a finished run is returned even if the token was cancelled at the same
                // time.
                biased;
                result = &mut work => result,
                () = cancellation.cancelled() => tasks.wait_for_end(work).await,
            }
        }
        .instrument(span)
        .await;
        if cancellation.is_cancelled() {
            parallel.wait_for_end().await;
        }
        // The calls may have been dropped before they returned, for example the calls of an agent
        // used as a tool.
        budget.end_calls(run);
        save_entries(run, &entries);
        if let Err(AgentErrorKind::Cancelled) = result {
            run.cancel();
        }
        if !matches!(result, Ok(None)) {
            // The request to stop belongs to this driver.
            run.stop_after_step(false);
        }
        budget.report(run);
        result.map_err(|kind| {
            AgentError::from(kind).with_transcript_and_usage(run.closed_transcript(), run.usage())
        })
    }

    /// Performs the effects of `run` one by one. A cancellation during an effect is handled by the
    /// caller, [`drive_until`](Self::drive_until). Returns `None` if `until` returned `true`.
    async fn perform_effects(
        &self,
        run: &mut Run,
        mailbox: &Mailbox,
        scope: &DriveScope<'_>,
        parallel: &mut ParallelCheck,
        until: StopCondition<'_>,
    ) -> Result<Option<RunOutput>, AgentErrorKind> {
        if Handle::try_current().is_err() {
            return Err(AgentErrorKind::NoRuntime);
        }
        if until(run) {
            return Ok(None);
        }
        let DriveScope { context, entries, events, budget, tasks } = scope;
        let clock = Clock::new();
        let mut inputs = {
            let _running = tasks.set();
            self.prepare_step(run, scope, None).await?
        };
        inputs.tools.diagnostics().iter().for_each(|diagnostic| tracing::warn!("{diagnostic}"));
        let mut deprecated = DeprecationWarnings::default();
        deprecated.warn_once(&inputs.tools);
        run.recover(&inputs.tools);
        let mut seen = run.transcript().len();
        let has_processors = self.0.extensions.has_history_processors();
        loop {
            if context.cancellation.is_cancelled() {
                return Err(AgentErrorKind::Cancelled);
            }
            save_entries(run, entries);
            budget.report(run);
            let change_view =
                |view, run: &Run| self.0.extensions.process_history(view, &scope.step_context(run));
            let history: Option<&ViewChange<'_>> = has_processors.then_some(&change_view);
            let step = Step { history, budget: Some(budget), ..inputs.as_step(clock.now()) };
            let effect = mailbox.next_effect(run, &step)?;
            emit_rejected_replies(run, seen, events).await;
            seen = run.transcript().len();
            match effect {
                Effect::Prepare if until(run) => return Ok(None),
                // A stopping run sends no request, so the inputs are not prepared.
                Effect::Prepare if run.is_stopping() && run.state() == RunState::Preparing => {}
                Effect::Prepare => {
                    let last = inputs.instructions.take();
                    let _running = tasks.set();
                    inputs = self.prepare_step(run, scope, last).await?;
                    deprecated.warn_once(&inputs.tools);
                }
                Effect::CheckInput(check) => {
                    let _running = tasks.set();
                    self.check_input(run, check, parallel, scope).await?;
                }
                Effect::Chat(request) => self.request_reply(run, *request, &inputs, parallel, scope).await?,
                Effect::Call(batch) => {
                    let _running = tasks.set();
                    self.perform_calls(run, inputs.tools.clone(), batch, scope).await?;
                }
                Effect::Compact(part) => self.compact(run, part).await?,
                Effect::Check(output) => self.check(run, *output, scope).await?,
                Effect::Review(calls) => self.review_calls(run, calls, scope).await?,
                Effect::Wait(_) => {
                    return run.to_suspended().map(|suspended| Some(RunOutput::Suspended(suspended)));
                }
                Effect::Done(answer) => return Ok(Some(RunOutput::Answer(answer))),
            }
        }
    }

    /// Sends `request` and reports the reply to `run`. Input guardrails run in parallel.
    async fn request_reply(
        &self,
        run: &mut Run,
        request: ChatRequest,
        inputs: &StepInputs,
        parallel: &mut ParallelCheck,
        scope: &DriveScope<'_>,
    ) -> Result<(), AgentErrorKind> {
        match self.send_request(run, request, inputs, parallel, scope).await? {
            ControlFlow::Continue(Some(reply)) => {
                let reply = {
                    let _running = scope.tasks.set();
                    self.run_reply_hooks(reply, run, scope).await?
                };
                Self::report_reply(run, reply, scope.events).await
            }
            ControlFlow::Continue(None) => {
                run.on_time_limit();
                Ok(())
            }
            ControlFlow::Break(()) => Ok(()),
        }
    }

    /// Sends `request` within the remaining time of `run`. The request shares its list of messages
    /// with the transcript, so it ends here, before the transcript grows.
    async fn send_request(
        &self,
        run: &mut Run,
        request: ChatRequest,
        inputs: &StepInputs,
        parallel: &mut ParallelCheck,
        scope: &DriveScope<'_>,
    ) -> Result<CheckedReply, AgentErrorKind> {
        let left = run.time_left();
        if self.start_parallel_check(run, parallel, scope) {
            return self.chat_with_parallel_check(run, inputs, &request, scope, parallel, left).await;
        }
        let chat = self.chat(run, inputs, &request, scope.events, scope.budget);
        Ok(ControlFlow::Continue(with_time_limit(left, chat).await?.transpose()?))
    }

    /// Runs the output validators on `output`, and reports the result to `run`.
    async fn check(
        &self,
        run: &mut Run,
        output: Output,
        scope: &DriveScope<'_>,
    ) -> Result<(), AgentErrorKind> {
        let _running = scope.tasks.set();
        let verdict = self.0.extensions.validate(output, &scope.step_context(run)).await;
        run.on_check(verdict)
    }

    /// Runs the reviews of `calls`, and reports the result to `run`. A hand-off is not reviewed:
    /// the next agent continues the run.
    async fn review_calls(
        &self,
        run: &mut Run,
        calls: Vec<AgentStep>,
        scope: &DriveScope<'_>,
    ) -> Result<(), AgentErrorKind> {
        let _running = scope.tasks.set();
        let is_handoff =
            |it: &AgentStep| it.result.is_success() && self.0.handoff_tools.contains(&it.tool_name);
        let review = if calls.iter().any(is_handoff) {
            CallReview::Continue
        } else {
            self.0.extensions.review_calls(calls, &scope.step_context(run)).await?
        };
        run.on_review(review)
    }

    /// Passes a successful reply through the `after_reply` hooks of the extensions. Returns a model
    /// error unchanged.
    async fn run_reply_hooks(
        &self,
        reply: Result<Reply, ModelError>,
        run: &mut Run,
        scope: &DriveScope<'_>,
    ) -> Result<Result<Reply, ModelError>, AgentErrorKind> {
        match reply {
            Ok(reply) => {
                let cx = scope.step_context(run);
                self.0.extensions.after_reply(reply, run, &cx).await.map(Ok)
            }
            Err(error) => Ok(Err(error)),
        }
    }

    /// Summarizes `part` with the compactor model within the remaining time of the run, and reports
    /// the summary to the run.
    async fn compact(&self, run: &mut Run, part: TranscriptView) -> Result<(), AgentErrorKind> {
        let span = tracing::info_span!("compact", haft.messages = part.len());
        let compactor = Arc::clone(&self.0.compactor);
        let summary = async move { compaction::summarize(&*compactor, &part).await }.instrument(span);
        match with_time_limit(run.time_left(), summary).await? {
            Some(summary) => run.on_compact(summary),
            None => {
                run.on_time_limit();
                Ok(())
            }
        }
    }

    /// Returns `context` with three additions: the state of the agent, `budget`, and a
    /// [`ProgressRelay`] that sends the progress of calls to `events`.
    fn call_context(&self, context: RunContext, budget: &RunBudget, events: &EventSink) -> RunContext {
        let progress = ProgressRelay { events: events.clone(), host: context.progress.clone() };
        let state = context.state.clone().with_defaults(&self.0.state);
        budget.in_context(RunContext { progress: Some(Arc::new(progress)), state, ..context })
    }

    /// Performs [`Effect::Call`]. Runs the call guardrails if `batch` has unchecked calls. If it
    /// has none, [executes](Self::execute_calls) the calls within the remaining time of `run`, and
    /// adds the usage, the requests and the calls of nested runs to `run`. At the time limit, the
    /// calls are cancelled. Calls that end within their grace period have their results.
    async fn perform_calls(
        &self,
        run: &mut Run,
        tools: ToolList,
        batch: CallBatch,
        scope: &DriveScope<'_>,
    ) -> Result<(), AgentErrorKind> {
        if !self.0.extensions.unchecked_calls(&batch).is_empty() {
            return self.guard_calls(run, &tools, &batch, scope).await;
        }
        let left = run.time_left();
        scope.budget.begin_calls(run);
        let result = self.execute_until(left, run, tools, batch, scope).await;
        scope.budget.end_calls(run);
        if !result? {
            run.on_time_limit();
        }
        Ok(())
    }

    /// Executes the calls of `batch`. Returns `false` if they are cancelled because the time `left`
    /// has passed.
    async fn execute_until(
        &self,
        left: Option<Duration>,
        run: &mut Run,
        tools: ToolList,
        batch: CallBatch,
        scope: &DriveScope<'_>,
    ) -> Result<bool, AgentErrorKind> {
        let cancellation = scope.context.cancellation.child_token();
        let time_is_up = cancellation.clone();
        let for_calls = Arc::new(RunContext { cancellation, ..RunContext::clone(&scope.context) });
        let mut calls = pin!(self.execute_calls(run, tools, batch, &for_calls, scope));
        if let Some(result) = with_time_limit(left, calls.as_mut()).await? {
            return result.map(|()| true);
        }
        time_is_up.cancel();
        calls.await?;
        Ok(false)
    }

    /// Executes the calls of `batch` in parallel, and reports each outcome to `run`. `tools` are
    /// the tools of the request that the model replied to. After a cancellation of `for_calls`, the
    /// context of the calls, cancelled calls are not reported, so that `run` closes them. The
    /// guardrails have the context of the run, because they also check the results of these calls.
    async fn execute_calls(
        &self,
        run: &mut Run,
        tools: ToolList,
        batch: CallBatch,
        for_calls: &Arc<RunContext>,
        scope: &DriveScope<'_>,
    ) -> Result<(), AgentErrorKind> {
        for call in &batch.calls {
            scope.events.emit(|| RunEvent::CallStarted { call: call.clone() }).await;
        }
        let guarded_tools =
            self.0.extensions.has_guardrails(GuardrailStage::CallResult).then(|| tools.clone());
        let (host, pushed) = self.queue_host(&tools, scope.events, || scope.step_context(run));
        let run_context = QueueScope::new(host).in_context(RunContext::clone(for_calls));
        let batch = batch.into_batch(tools, Arc::new(run_context));
        let mut outcomes = pin!(self.0.tools.pipeline().stream_batch(batch));
        while let Some((_, outcome)) = outcomes.next().await {
            if is_cancelled(&outcome, for_calls) {
                continue;
            }
            let (outcome, has_ended) = match &guarded_tools {
                Some(tools) => self.guard_result(run, tools, outcome, scope).await?,
                None => (outcome, false),
            };
            let event = Self::record_outcome(run, outcome)?;
            // Save the entries before the `await`: if the driver is dropped there, the run has both
            // the result and the entries changed by the call.
            save_entries(run, scope.entries);
            scope.events.emit(|| event).await;
            if has_ended {
                return Err(run.end_by_guardrail());
            }
        }
        pushed.apply(run)
    }

    /// Reports the `outcome` of a call to `run`, and returns the event for it.
    fn record_outcome(run: &mut Run, outcome: CallOutcome) -> Result<RunEvent, AgentErrorKind> {
        Ok(match outcome {
            CallOutcome::Finished(result) => {
                let id = result.call_id.clone();
                RunEvent::CallFinished { result: Arc::clone(run.on_result(&id, result)?) }
            }
            CallOutcome::Pending(pending) => {
                run.on_pending(pending.clone())?;
                RunEvent::CallPending { pending: Box::new(pending) }
            }
        })
    }
}

/// Returns `true` if `outcome` is the outcome of a call that ended because `context` is cancelled.
fn is_cancelled(outcome: &CallOutcome, context: &RunContext) -> bool {
    let CallOutcome::Finished(result) = outcome else { return false };
    result.failure().is_some_and(|failure| failure.kind == FailureKind::Cancelled)
        && context.cancellation.is_cancelled()
}

/// Emits an event for each error text that `run` added to the transcript after a rejected reply,
/// starting at message index `seen`.
async fn emit_rejected_replies(run: &Run, seen: usize, events: &EventSink) {
    for problem in run.rejections_since(seen).collect::<Vec<_>>() {
        events.emit(|| RunEvent::ReplyRejected { problem }).await;
    }
}

/// Copies `entries` to `run` if an entry has changed since the previous call.
fn save_entries(run: &mut Run, entries: &Entries) {
    if let Some(changed) = entries.take_if_changed() {
        run.set_extension_entries(changed);
    }
}
