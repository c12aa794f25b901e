//! The driver of a run. It performs the effects of the run, and reports their outcomes.

use std::{collections::BTreeSet, pin::pin, sync::Arc};

use futures::stream::StreamExt as _;
use haft_core::{
    RunEvent, RunInput, RunOutput, Tool,
    agent::{AgentError, AgentErrorKind},
    message::TranscriptView,
    model::ModelError,
    pipeline::{Batch, CallOutcome},
    tool::RunContext,
    toolset::ToolList,
    usage::UsageMeter,
};
use tokio::runtime::Handle;
use tracing::Instrument as _;

use super::{
    ReactAgent,
    clock::{Clock, with_time_limit},
    deprecation_warnings::DeprecationWarnings,
    events::{EventSink, ProgressRelay},
    run_handle::Mailbox,
};
use crate::{
    Effect, QueueHandle, Run, Step, compaction,
    dialect::Reply,
    extension::{Entries, StepContext},
    queue::{CallQueues, QueueResolver},
    run::CallBatch,
};

/// A predicate that the driver calls when it starts and at each step boundary. If it returns
/// `true`, the agent stops driving the run, for example because another agent takes over.
pub(crate) type StopCondition<'a> = &'a (dyn Fn(&Run) -> bool + Send + Sync);

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
        let output = self.drive_until(&mut run, context, (events, &mailbox), &|_| false).await;
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
        let output = self.drive_until(run, context, (events, &mailbox), &|_| false).await;
        mailbox.close(run);
        output?.ok_or_else(|| AgentErrorKind::Incomplete.into())
    }

    /// Drives `run` until it ends or is suspended. Returns `None` if `until` returns `true` at the
    /// start or at an earlier step boundary. Cancelling `context` [cancels](Run::cancel) the run,
    /// which closes its open calls.
    pub(crate) async fn drive_until(
        &self,
        run: &mut Run,
        context: RunContext,
        (events, mailbox): (&EventSink, &Mailbox),
        until: StopCondition<'_>,
    ) -> Result<Option<RunOutput>, AgentError> {
        let cancellation = context.cancellation.clone();
        let meter = UsageMeter::default();
        let entries = Entries::new(run.extension_entries().clone());
        let context = RunContext { state: context.state.with_value(entries.clone()), ..context };
        let span = tracing::info_span!(
            "invoke_agent",
            gen_ai.operation.name = "invoke_agent",
            gen_ai.request.model = self.0.model.profile().name,
            haft.run.id = context.run_id,
        );
        let result = async {
            tokio::select! {
                // `biased`: a finished run is returned even if the token was cancelled at the same
                // time.
                biased;
                result = self.perform_effects(run, context, (events, mailbox, &meter, &entries), until) => result,
                () = cancellation.cancelled() => Err(AgentErrorKind::Cancelled),
            }
        }
        .instrument(span)
        .await;
        // `meter` contains the usage of calls that were dropped before they returned, for example
        // the model requests of an agent used as a tool.
        run.on_usage(meter.take());
        save_entries(run, &entries);
        result.map_err(|kind| {
            if matches!(kind, AgentErrorKind::Cancelled) {
                run.cancel();
            }
            AgentError::from(kind).with_transcript_and_usage(run.closed_transcript(), run.usage())
        })
    }

    /// Performs the effects of `run` one by one. A cancellation during an effect is handled by the
    /// caller, [`drive_until`](Self::drive_until). Returns `None` if `until` returned `true`.
    async fn perform_effects(
        &self,
        run: &mut Run,
        context: RunContext,
        (events, mailbox, meter, entries): (&EventSink, &Mailbox, &UsageMeter, &Entries),
        until: StopCondition<'_>,
    ) -> Result<Option<RunOutput>, AgentErrorKind> {
        if Handle::try_current().is_err() {
            return Err(AgentErrorKind::NoRuntime);
        }
        if until(run) {
            return Ok(None);
        }
        let context = Arc::new(self.call_context(context, meter, events));
        let clock = Clock::new();
        let placeholders = QueueResolver::new();
        let mut inputs = self.prepare_step(run, &context, entries, None).await?;
        inputs.tools.diagnostics().iter().for_each(|diagnostic| tracing::warn!("{diagnostic}"));
        let mut deprecated = DeprecationWarnings::default();
        deprecated.warn_once(&inputs.tools);
        run.recover(&inputs.tools);
        let mut seen = run.transcript().len();
        loop {
            if context.cancellation.is_cancelled() {
                return Err(AgentErrorKind::Cancelled);
            }
            save_entries(run, entries);
            let step = Step { resolver: Some(&placeholders), ..inputs.as_step(clock.now()) };
            let effect = mailbox.next_effect(run, &step)?;
            emit_rejected_replies(run, seen, events).await;
            seen = run.transcript().len();
            match effect {
                Effect::Prepare if until(run) => return Ok(None),
                Effect::Prepare => {
                    let last = inputs.instructions.take();
                    inputs = self.prepare_step(run, &context, entries, last).await?;
                    deprecated.warn_once(&inputs.tools);
                }
                Effect::Chat(request) => {
                    let left = run.time_left();
                    let reply =
                        with_time_limit(left, pin!(self.chat(run, &inputs, &request, events))).await?;
                    // The request and the transcript share one list of messages. The transcript can
                    // add a message without copying the list only after the request is dropped.
                    drop(request);
                    match reply {
                        Some(reply) => {
                            let reply = self.run_reply_hooks(reply, run, (&context, entries)).await?;
                            Self::report_reply(run, reply, events).await?;
                        }
                        None => run.on_time_limit(),
                    }
                }
                Effect::Call(batch) => {
                    let left = run.time_left();
                    let tools = inputs.tools.clone();
                    let calls = self.execute_calls(run, tools, batch, &context, (events, entries));
                    let result = with_time_limit(left, pin!(calls)).await;
                    run.on_usage(meter.take());
                    match result? {
                        Some(result) => result?,
                        None => run.on_time_limit(),
                    }
                }
                Effect::Compact(part) => self.compact(run, part).await?,
                Effect::Check(output) => {
                    // `cx` also shares the list of messages, so it is dropped before `on_check`.
                    let cx = StepContext::new(run, &context, entries);
                    let verdict = self.0.extensions.validate(*output, &cx).await;
                    drop(cx);
                    run.on_check(verdict)?;
                }
                Effect::Wait(_) => {
                    return run.to_suspended().map(|suspended| Some(RunOutput::Suspended(suspended)));
                }
                Effect::Done(answer) => return Ok(Some(RunOutput::Answer(answer))),
            }
        }
    }

    /// Passes a successful reply through the `after_reply` hooks of the extensions. Returns a model
    /// error unchanged.
    async fn run_reply_hooks(
        &self,
        reply: Result<Reply, ModelError>,
        run: &mut Run,
        (context, entries): (&Arc<RunContext>, &Entries),
    ) -> Result<Result<Reply, ModelError>, AgentErrorKind> {
        match reply {
            Ok(reply) => {
                let cx = StepContext::new(run, context, entries);
                self.0.extensions.after_reply(reply, run, &cx).await.map(Ok)
            }
            Err(error) => Ok(Err(error)),
        }
    }

    /// Summarizes `part` with the compactor model within the remaining time of the run, and reports
    /// the summary to the run.
    async fn compact(&self, run: &mut Run, part: TranscriptView) -> Result<(), AgentErrorKind> {
        let span = tracing::info_span!("compact", haft.messages = part.len());
        let summary = compaction::summarize(&*self.0.compactor, &part).instrument(span);
        let summary = with_time_limit(run.time_left(), summary).await?;
        drop(part);
        match summary {
            Some(summary) => run.on_compact(summary),
            None => {
                run.on_time_limit();
                Ok(())
            }
        }
    }

    /// Returns `context` with three additions: the state of the agent, `meter`, and a
    /// [`ProgressRelay`] that sends the progress of calls to `events`.
    ///
    /// If the runs of this agent have a queue, also adds a closed [`QueueHandle`] to the state.
    /// Without this handle, tools with a [`QueueHandle`] parameter would be withheld because of
    /// missing state. For each call, an open handle replaces the closed handle.
    ///
    /// If `context` already has a handle, it belongs to the call that runs this agent as a tool.
    /// The run then gets a queue of its own, because that handle pushes calls to the tools of the
    /// calling agent.
    fn call_context(&self, context: RunContext, meter: &UsageMeter, events: &EventSink) -> RunContext {
        let progress = ProgressRelay { events: events.clone(), host: context.progress.clone() };
        let mut state = context.state.clone().with_defaults(&self.0.state);
        if self.0.has_queue || state.get::<QueueHandle>().is_some() {
            state = state.with_value(QueueHandle::closed());
        }
        RunContext { progress: Some(Arc::new(progress)), state, usage: Some(meter.clone()), ..context }
    }

    /// Returns the tools in `tools` whose calls can be pushed to the queue: all except hand-off
    /// tools. A hand-off must be part of a reply, since it takes effect after the calls of this
    /// reply.
    fn queueable_tools(&self, tools: &ToolList) -> ToolList {
        let handoff_tools = &self.0.handoff_tools;
        if handoff_tools.is_empty() {
            return tools.clone();
        }
        let compute = |tools: &ToolList| QueueableTools::new(tools, Arc::clone(handoff_tools));
        let cached = tools.memoize(compute);
        if cached.handoff_tools == *handoff_tools { cached.tools.clone() } else { compute(tools).tools }
    }

    /// Executes the calls of `batch` in parallel, and reports each outcome to `run`. `tools` are
    /// the tools of the request that the model replied to.
    async fn execute_calls(
        &self,
        run: &mut Run,
        tools: ToolList,
        batch: CallBatch,
        context: &Arc<RunContext>,
        (events, entries): (&EventSink, &Entries),
    ) -> Result<(), AgentErrorKind> {
        let CallBatch { calls, resumed } = batch;
        for call in &calls {
            events.emit(|| RunEvent::CallStarted { call: call.clone() }).await;
        }
        let has_queue = context.state.get::<QueueHandle>().is_some();
        let queues = has_queue.then(|| CallQueues::new(run, &calls));
        let states =
            queues.as_ref().map(|it| it.host_states(&self.queueable_tools(&tools), self.0.tools.pipeline()));
        let states = states.unwrap_or_default();
        let batch = Batch { tools, calls, resumed, run_context: Arc::clone(context), call_states: states };
        let mut outcomes = pin!(self.0.tools.pipeline().stream_batch(batch));
        loop {
            // `outcome` is dropped before `emit` is awaited. It may be large, and the future would
            // otherwise store it.
            let event = match outcomes.next().await {
                Some((_, outcome)) => Self::record_outcome(run, outcome, queues.as_ref())?,
                None => return Ok(()),
            };
            // Save the entries before the `await`: if the driver is dropped there, the run has both
            // the result and the entries changed by the call.
            save_entries(run, entries);
            events.emit(|| event).await;
        }
    }

    /// Reports the `outcome` of a call to `run`, and returns the event for it. Calls pushed to the
    /// queue by this call are added first, so that a run saved in between does not lose them.
    fn record_outcome(
        run: &mut Run,
        outcome: CallOutcome,
        queues: Option<&CallQueues>,
    ) -> Result<RunEvent, AgentErrorKind> {
        if let Some(queues) = queues {
            queues.close(&outcome, run)?;
        }
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

/// The tools whose calls can be pushed to the queue, cached in the original tool list.
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
