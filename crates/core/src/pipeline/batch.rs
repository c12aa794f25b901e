use std::{
    collections::{BTreeMap, HashMap},
    future::ready,
    sync::Arc,
    task::Poll,
};

use futures::{
    future::Either,
    ready,
    stream::{self, FuturesUnordered, Stream, StreamExt as _},
};

use super::{CallOutcome, Pipeline, find, invoke::CallTask};
use crate::{
    call::{ResumedCall, ResumedCalls, ToolCall},
    pipeline::ToolList,
    tool::{HostState, RunContext, ToolContext, Touch},
};

/// The tool calls of one model reply, and the context in which they run. Calls that do not conflict
/// run in parallel.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The tools that were offered to the model in the request for this reply.
    pub tools: ToolList,
    /// The calls, in the order of the reply.
    pub calls: Vec<ToolCall>,
    /// The pending states and decisions of calls that are resumed after a suspension, by call id.
    pub resumed: ResumedCalls,
    /// The context of the run, shared by all calls.
    pub run_context: Arc<RunContext>,
    /// Additional host state for individual calls, by call id. It takes precedence over host state
    /// of the same type in [`run_context`](Self::run_context).
    pub call_states: BTreeMap<String, HostState>,
}

impl Pipeline {
    /// Runs the calls of `batch` in parallel, each on its own task. The stream yields each outcome
    /// when its call completes, together with the index of the call in the batch.
    ///
    /// [Conflicting](crate::tool::TouchFn) calls run in the order of the batch: a call starts after
    /// all earlier calls that conflict with it have finished or are pending. A call to a
    /// [sequential](crate::tool::ToolPolicy::sequential) tool conflicts with all other calls.
    ///
    /// On a multi-thread runtime, a tool that blocks its thread delays only its own call. On a
    /// current-thread runtime, it delays all calls.
    ///
    /// # Cancellation
    ///
    /// Dropping the stream aborts all running calls. Side effects may already have happened.
    pub fn stream_batch(&self, batch: Batch) -> impl Stream<Item = (usize, CallOutcome)> + Send + 'static {
        let is_single = batch.calls.len() == 1;
        // The only call of a batch cannot conflict with another call, so it needs no schedule.
        let mut waiting = if is_single { Vec::new() } else { self.find_blockers(&batch) };
        let (pipeline, batch) = (self.clone(), Arc::new(batch));
        let outcome = move |index| {
            let (pipeline, batch) = (pipeline.clone(), Arc::clone(&batch));
            async move { Some((index, pipeline.run_in_batch(&batch, batch.calls.get(index)?).await)) }
        };
        if is_single {
            return Either::Left(stream::once(outcome(0)).filter_map(ready));
        }
        let mut running = FuturesUnordered::new();
        Either::Right(stream::poll_fn(move |cx| {
            let unblocked = waiting.extract_if(.., |(_, blockers)| blockers.is_empty());
            running.extend(unblocked.map(|(index, _)| outcome(index)));
            let completed = ready!(running.poll_next_unpin(cx)).flatten();
            if let Some((index, _)) = &completed {
                waiting.iter_mut().for_each(|(_, blockers)| blockers.retain(|blocker| blocker != index));
            }
            Poll::Ready(completed)
        }))
    }

    /// Runs the calls of `batch` in parallel, like [`stream_batch`](Self::stream_batch), and
    /// returns all outcomes in the order of the calls.
    ///
    /// # Cancellation
    ///
    /// Dropping the future aborts all running calls, as for [`stream_batch`](Self::stream_batch).
    pub async fn call_all(&self, batch: Batch) -> Vec<CallOutcome> {
        let mut outcomes: Vec<_> = self.stream_batch(batch).collect().await;
        outcomes.sort_by_key(|(index, _)| *index);
        outcomes.into_iter().map(|(_, outcome)| outcome).collect()
    }

    async fn run_in_batch(&self, batch: &Batch, call: &ToolCall) -> CallOutcome {
        let run = match batch.call_states.get(&call.id) {
            None => Arc::clone(&batch.run_context),
            Some(own) => {
                let state = own.clone().with_defaults(&batch.run_context.state);
                Arc::new(RunContext { state, ..RunContext::clone(&batch.run_context) })
            }
        };
        let mut cx = ToolContext::new(run, call.id.as_str());
        if let Some(resumed) = batch.resumed.get(&call.id) {
            cx = cx.with_resumed(resumed.clone());
        }
        let (tool, task, own) = match find::find_tool(&batch.tools, &call.name) {
            Ok((tool, own)) => (Ok(&**tool), CallTask::Spawned(tool), own),
            Err(error) => (Err(error), CallTask::Caller, None),
        };
        let pipeline = self.for_tool(own);
        pipeline.run_call(tool, call, &cx, task, Some(&batch.tools)).await
    }

    /// Returns the index of each call in `batch` and the indices of its blockers: earlier calls
    /// that must end before the call starts. Conflicts that follow from other conflicts are
    /// omitted, so the number of blockers is linear in the number of calls and touches.
    fn find_blockers(&self, batch: &Batch) -> Vec<(usize, Vec<usize>)> {
        // The index of the most recent call that must run alone. All later calls wait for this
        // call.
        let mut barrier: Option<usize> = None;
        // For each resource: the index of the most recent call that writes the resource, and the
        // indices of the calls after it that read the resource.
        let mut users: HashMap<String, (Option<usize>, Vec<usize>)> = HashMap::new();
        let blockers = |(index, call)| {
            let Some(touches) = self.resolve_touches(batch, call) else {
                users.clear();
                return (index, (barrier.replace(index).unwrap_or(0)..index).collect());
            };
            let mut blockers = Vec::from_iter(barrier);
            for Touch { resource, is_write } in touches {
                let (writer, readers) = users.entry(resource).or_default();
                blockers.extend(*writer);
                if is_write {
                    blockers.append(readers);
                    *writer = Some(index);
                } else {
                    readers.push(index);
                }
            }
            // A call that touches the same resource twice must not block itself.
            blockers.retain(|blocker| *blocker != index);
            (index, blockers)
        };
        batch.calls.iter().enumerate().map(blockers).collect()
    }

    /// Returns the resources that `call` uses. `None` if the call must run alone, because its tool
    /// is sequential or its resources are unknown.
    fn resolve_touches(&self, batch: &Batch, call: &ToolCall) -> Option<Vec<Touch>> {
        let Some(tool) = batch.tools.get(&call.name) else { return Some(Vec::new()) };
        let policy = super::definition_or_panic_error(&**tool).ok()?.policy();
        if policy.sequential {
            return None;
        }
        let Some(touches) = &policy.touches else { return Some(Vec::new()) };
        let touches = match batch.resumed.get(&call.id).and_then(ResumedCall::approved_arguments) {
            Some(approved) => touches.touches(approved),
            None => self.parse_arguments(&batch.tools, call).ok().and_then(|it| touches.touches(&it)),
        };
        if touches.is_none() {
            tracing::warn!(tool = call.name, call = call.id, "resources of a call unknown, it runs alone");
        }
        touches
    }
}
