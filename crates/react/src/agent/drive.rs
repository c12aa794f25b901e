//! One run, driven to its end.

use std::{collections::HashSet, mem, sync::Arc};

use futures::stream::StreamExt as _;
use haft_core::{
    AgentError, AgentErrorKind, Batch, CallOutcome, ChatEvent, ChatRequest, ListContext, ModelError,
    RunContext, RunEvent, RunOutput, Timestamp, ToolList, ToolName,
};
use tokio::runtime::Handle;
use tracing::{Instrument as _, Span, field};

use super::{
    ReactAgent, compact, hook,
    hook::StepContext,
    watch::{Events, ProgressRelay},
};
use crate::{CallBatch, Delta, Effect, QueueHandle, Reply, Run, Step, queue::Pushed};

impl ReactAgent {
    /// Drives a run until it ends or waits. Cancelled by its token, it closes what is open.
    pub(crate) async fn drive_to_end(
        &self,
        run: &mut Run,
        context: RunContext,
        events: &Events,
    ) -> Result<RunOutput, AgentError> {
        let cancellation = context.cancellation.clone();
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
                ended = self.advance(run, context, events) => ended,
                () = cancellation.cancelled() => Err(AgentErrorKind::Cancelled),
            }
        }
        .instrument(span)
        .await;
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
        events: &Events,
    ) -> Result<RunOutput, AgentErrorKind> {
        if Handle::try_current().is_err() {
            return Err(AgentErrorKind::NoRuntime);
        }
        let progress = ProgressRelay { events: events.clone(), host: context.progress.clone() };
        let state = context.state.clone().with_defaults(&self.0.state);
        let queue = self.0.has_queue.then(|| Arc::new(Pushed::with_capacity(run.queue_room())));
        let context = RunContext { progress: Some(Arc::new(progress)), state, ..context };
        let context = self.lend_queue(queue.as_ref(), context.into(), &ToolList::default());
        let mut tools = self.list(run, &context).await;
        for diagnostic in tools.diagnostics() {
            tracing::warn!("{diagnostic}");
        }
        let mut deprecated = Deprecated::default();
        deprecated.warn(&tools);
        run.recover(&tools);
        let mut is_fresh = true;
        loop {
            if context.cancellation.is_cancelled() {
                return Err(AgentErrorKind::Cancelled);
            }
            if run.handed_off(&self.0.transfers).is_some() {
                return Ok(RunOutput::Answer(Box::new(run.so_far())));
            }
            if !mem::take(&mut is_fresh) && run.is_asking() {
                tools = self.list(run, &context).await;
                deprecated.warn(&tools);
            }
            let instructions = self.0.instructions.as_ref();
            let step = Step { instructions, ..Step::new(&tools, self.dialect(), Timestamp::now()) };
            match run.next(&step)? {
                Effect::Chat(request) => {
                    let reply = self.ask(run, &request, events).await;
                    // The request shares the transcript: while it lives, an addition costs a copy of the list.
                    drop(request);
                    run.on_chat(reply)?;
                }
                Effect::Call(batch) => {
                    let context = self.lend_queue(queue.as_ref(), Arc::clone(&context), &tools);
                    self.call(run, tools.clone(), batch, &context, (events, queue.as_deref())).await?;
                }
                Effect::Compact(part) => {
                    let span = tracing::info_span!("compact", haft.messages = part.len());
                    let summary = compact::summarise(&*self.0.compactor, &part).instrument(span).await;
                    drop(part);
                    run.on_compact(summary)?;
                }
                Effect::Check(output) => {
                    let cx = StepContext::new(run, &context);
                    let checked = hook::validate(&self.0.validators, self.0.hook_timeout, *output, &cx).await;
                    drop(cx);
                    run.on_check(checked)?;
                }
                Effect::Wait(_) => return run.park().map(RunOutput::Parked),
                Effect::Done(answer) => return Ok(RunOutput::Answer(answer)),
            }
        }
    }

    /// The context of calls whose tools may push calls of these tools.
    fn lend_queue(
        &self,
        queue: Option<&Arc<Pushed>>,
        context: Arc<RunContext>,
        tools: &ToolList,
    ) -> Arc<RunContext> {
        let Some(queue) = queue else { return context };
        let handle = QueueHandle::new(queue, tools.clone(), self.0.tools.pipeline().clone());
        let state = context.state.clone().with(handle);
        Arc::new(RunContext { state, ..(*context).clone() })
    }

    async fn list(&self, run: &Run, context: &RunContext) -> ToolList {
        let (run_id, state) = (context.run_id.clone(), context.state.clone());
        self.0.tools.list(&ListContext { step: run.requests(), run_id, state }).await
    }

    /// Asks the model, and tells of the reply as it comes.
    async fn ask(&self, run: &Run, request: &ChatRequest, events: &Events) -> Result<Reply, ModelError> {
        let model = &self.0.model;
        let span = tracing::info_span!(
            "chat",
            gen_ai.operation.name = "chat",
            gen_ai.request.model = model.profile().name,
            gen_ai.response.model = field::Empty,
            gen_ai.response.id = field::Empty,
            gen_ai.usage.input_tokens = field::Empty,
            gen_ai.usage.output_tokens = field::Empty,
        );
        events.tell(RunEvent::RequestStarted { request: run.requests() }).await;
        let reply = self.listen(run, request, events).instrument(span).await?;
        events.tell(RunEvent::RequestFinished { usage: reply.usage }).await;
        Ok(reply)
    }

    async fn listen(&self, run: &Run, request: &ChatRequest, events: &Events) -> Result<Reply, ModelError> {
        let outputs = run.outputs();
        let mut listener = self.dialect().listener(outputs);
        let mut reply = self.0.model.stream(request);
        while let Some(event) = reply.next().await {
            let event = event?;
            for delta in listener.hear(&event) {
                events.tell(delta.into()).await;
            }
            if let ChatEvent::Finished(response) = event {
                let span = Span::current();
                span.record("gen_ai.response.model", response.model.as_deref());
                span.record("gen_ai.response.id", response.id.as_deref());
                span.record("gen_ai.usage.input_tokens", response.usage.input_tokens);
                span.record("gen_ai.usage.output_tokens", response.usage.output_tokens);
                return Ok(self.dialect().fold(response, outputs));
            }
        }
        Err(ModelError::Truncated {
            reason: "the stream ended before the reply".to_owned(),
            partial: Box::default(),
        })
    }

    /// Makes calls in the snapshot that the model saw.
    async fn call(
        &self,
        run: &mut Run,
        tools: ToolList,
        batch: CallBatch,
        context: &Arc<RunContext>,
        (events, queue): (&Events, Option<&Pushed>),
    ) -> Result<(), AgentErrorKind> {
        let CallBatch { calls, resumed } = batch;
        for call in &calls {
            events.tell(RunEvent::CallStarted { call: call.clone() }).await;
        }
        let ids: Vec<_> = calls.iter().map(|call| call.id.clone()).collect();
        let batch = Batch { tools, calls, resumed, run: Arc::clone(context) };
        let mut outcomes = self.0.tools.pipeline().batch(batch).boxed();
        while let Some((place, outcome)) = outcomes.next().await {
            let Some(id) = ids.get(place) else { continue };
            run.on_queued(queue.map(Pushed::take).unwrap_or_default())?;
            match outcome {
                CallOutcome::Finished(result) => {
                    let result = run.on_result(id, result)?;
                    events.tell(RunEvent::CallFinished { result }).await;
                }
                CallOutcome::Pending(pending) => {
                    run.on_pending(pending.clone())?;
                    events.tell(RunEvent::CallPending { pending }).await;
                }
            }
        }
        Ok(())
    }
}

/// The tools of a run that should no longer be used. Each is told once.
#[derive(Default)]
struct Deprecated {
    told: HashSet<ToolName>,
    /// The list that was looked at last.
    list: Option<u64>,
}

impl Deprecated {
    fn warn(&mut self, tools: &ToolList) {
        if self.list.replace(tools.id()) == Some(tools.id()) {
            return;
        }
        for definition in tools.tools().iter().map(|tool| tool.definition()) {
            if let Some(deprecation) = definition.deprecated()
                && self.told.insert(definition.name().clone())
            {
                tracing::warn!("tool {:?} is {deprecation}", definition.name());
            }
        }
    }
}

impl From<Delta> for RunEvent {
    fn from(delta: Delta) -> Self {
        match delta {
            Delta::Text(text) => Self::TextDelta { text },
            Delta::Thought(text) => Self::ThoughtDelta { text },
        }
    }
}
