//! One run, driven to its end.

use std::{mem, pin::pin, sync::Arc};

use futures::stream::StreamExt as _;
use haft_core::{
    RunEvent, RunOutput, Tool,
    agent::{AgentError, AgentErrorKind},
    pipeline::{Batch, CallOutcome},
    tool::RunContext,
    toolset::ToolList,
    usage::UsageMeter,
};
use tokio::runtime::Handle;
use tracing::Instrument as _;

use super::{
    ReactAgent,
    clock::{Clock, within},
    compact,
    deprecated::Deprecated,
    hook::StepContext,
    watch::{Events, ProgressRelay},
};
use crate::{
    CallBatch, Effect, QueueHandle, Run,
    queue::{Pushed, Queues, Room},
};

impl ReactAgent {
    /// Drives a run until it ends or waits. Cancelled by its token, it closes what is open.
    pub(crate) async fn drive_to_end(
        &self,
        run: &mut Run,
        context: RunContext,
        events: &Events,
    ) -> Result<RunOutput, AgentError> {
        let cancellation = context.cancellation.clone();
        let meter = UsageMeter::default();
        let span = tracing::info_span!(
            "invoke_agent",
            gen_ai.operation.name = "invoke_agent",
            gen_ai.request.model = self.0.model.profile().name,
            haft.run.id = context.run_id,
        );
        let ended = async {
            tokio::select! {
                // A result that is there is taken, whenever the token was cancelled.
                biased;
                ended = self.advance(run, context, (events, &meter)) => ended,
                () = cancellation.cancelled() => Err(AgentErrorKind::Cancelled),
            }
        }
        .instrument(span)
        .await;
        // What was used by calls that were given up.
        run.on_usage(meter.take());
        ended.map_err(|kind| {
            if matches!(kind, AgentErrorKind::Cancelled) {
                run.cancel();
            }
            AgentError::from(kind).with_run(run.said(), run.usage())
        })
    }

    async fn advance(
        &self,
        run: &mut Run,
        context: RunContext,
        (events, meter): (&Events, &UsageMeter),
    ) -> Result<RunOutput, AgentErrorKind> {
        if Handle::try_current().is_err() {
            return Err(AgentErrorKind::NoRuntime);
        }
        let progress = ProgressRelay { events: events.clone(), host: context.progress.clone() };
        let state = context.state.clone().with_defaults(&self.0.state);
        let room = self.0.has_queue.then(|| Room::new(run.queue_room()));
        let usage = Some(meter.clone());
        let context = RunContext { progress: Some(Arc::new(progress)), state, usage, ..context };
        let clock = Clock::new();
        let context = Arc::new(self.with_queue(context));
        let mut lent = self.lend(run, &context, None).await?;
        for diagnostic in lent.tools.diagnostics() {
            tracing::warn!("{diagnostic}");
        }
        let mut deprecated = Deprecated::default();
        deprecated.warn(&lent.tools);
        run.recover(&lent.tools);
        let (mut is_fresh, mut told) = (true, run.transcript().len());
        loop {
            if context.cancellation.is_cancelled() {
                return Err(AgentErrorKind::Cancelled);
            }
            run.take_in(&lent.step(self, clock.now()))?;
            for problem in run.refused_since(mem::replace(&mut told, run.transcript().len())) {
                events.tell(|| RunEvent::ReplyRefused { problem }).await;
            }
            if run.handed_off(&self.0.transfers).is_some() {
                return Ok(RunOutput::Answer(Box::new(run.so_far())));
            }
            if !mem::take(&mut is_fresh) && run.is_asking() {
                lent = self.lend(run, &context, Some(lent)).await?;
                deprecated.warn(&lent.tools);
            }
            match run.next(&lent.step(self, clock.now()))? {
                Effect::Chat(request) => {
                    let reply = within(run.time_left(), pin!(self.ask(run, &request, events))).await?;
                    // The request shares the transcript: while it lives, an addition costs a copy of the list.
                    drop(request);
                    match reply {
                        Some(reply) => Self::hear_out(run, reply, events).await?,
                        None => run.on_time_up(),
                    }
                }
                Effect::Call(batch) => {
                    let left = run.time_left();
                    let tools = lent.tools.clone();
                    let calls = self.call(run, tools, batch, &context, (events, room.as_ref()));
                    let made = within(left, pin!(calls)).await;
                    run.on_usage(meter.take());
                    match made? {
                        Some(made) => made?,
                        None => run.on_time_up(),
                    }
                }
                Effect::Compact(part) => {
                    let span = tracing::info_span!("compact", haft.messages = part.len());
                    let summary = compact::summarise(&*self.0.compactor, &part).instrument(span);
                    let summary = within(run.time_left(), summary).await?;
                    drop(part);
                    match summary {
                        Some(summary) => run.on_compact(summary)?,
                        None => run.on_time_up(),
                    }
                }
                Effect::Check(output) => {
                    let cx = StepContext::of(run, &context);
                    let checked = self.0.hooks.validate(*output, cx).await;
                    run.on_check(checked)?;
                }
                Effect::Wait(_) => return run.park().map(RunOutput::Parked),
                Effect::Done(answer) => return Ok(RunOutput::Answer(answer)),
            }
        }
    }

    /// Sources are asked for tools that may push: that is known before there is a call.
    fn with_queue(&self, context: RunContext) -> RunContext {
        if !self.0.has_queue {
            return context;
        }
        let none = Pushed::within(&Room::new(0));
        let handle = QueueHandle::new(&Arc::new(none), ToolList::default(), self.0.tools.pipeline().clone());
        RunContext { state: context.state.with(handle), ..context }
    }

    /// The tools whose calls may be pushed: who answers is decided by the reply itself.
    fn pushable(&self, tools: &ToolList) -> ToolList {
        let transfers = &self.0.transfers;
        if transfers.is_empty() {
            return tools.clone();
        }
        let is_pushable = |tool: &&Arc<dyn Tool>| !transfers.contains(tool.definition().name().as_str());
        ToolList::new("queue", tools.tools().iter().filter(is_pushable).cloned())
    }

    /// Makes calls in the snapshot that the model saw.
    async fn call(
        &self,
        run: &mut Run,
        tools: ToolList,
        batch: CallBatch,
        context: &Arc<RunContext>,
        (events, room): (&Events, Option<&Arc<Room>>),
    ) -> Result<(), AgentErrorKind> {
        let CallBatch { calls, resumed } = batch;
        for call in &calls {
            events.tell(|| RunEvent::CallStarted { call: call.clone() }).await;
        }
        let queues = Queues::of(&calls, room);
        let states = queues.lend(|| self.pushable(&tools), self.0.tools.pipeline());
        let batch = Batch { tools, calls, resumed, run: Arc::clone(context), states };
        let mut outcomes = pin!(self.0.tools.pipeline().batch(batch));
        loop {
            // An outcome is large, and an event is not: nothing else is kept while somebody is told.
            let event = match outcomes.next().await {
                Some((_, outcome)) => Self::heed(run, outcome, &queues)?,
                None => return Ok(()),
            };
            events.tell(|| event).await;
        }
    }

    /// Tells a run what came of a call, and what is to be told of it.
    fn heed(run: &mut Run, outcome: CallOutcome, queues: &Queues) -> Result<RunEvent, AgentErrorKind> {
        run.on_queued(queues.close(outcome.call_id(), &outcome))?;
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
