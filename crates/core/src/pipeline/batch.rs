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

use super::{CallOutcome, Pipeline, find, invoke::Host};
use crate::{
    call::{Resumed, ResumedCalls, ToolCall},
    pipeline::ToolList,
    tool::{RunContext, State, ToolContext, Touch},
};

/// Calls that one reply asked for.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The tools that the model saw.
    pub tools: ToolList,
    /// The calls, in order.
    pub calls: Vec<ToolCall>,
    /// Those of them that waited and go on.
    pub resumed: ResumedCalls,
    /// What all of them share.
    pub run: Arc<RunContext>,
    /// What single calls have for themselves, by their ids: it goes before the values of the same types that all share.
    pub states: BTreeMap<String, State>,
}

impl Pipeline {
    /// Runs calls in parallel, each on its own task, and yields their outcomes as they arrive, each
    /// with its index in the batch.
    ///
    /// Two calls [in conflict](crate::tool::Access) run in the order of the batch: a call starts
    /// when all earlier calls in conflict with it have ended or wait for an answer. A call of a
    /// [sequential](crate::tool::Policy::sequential) tool conflicts with all others.
    ///
    /// A tool that blocks its thread delays only itself on a multi-thread runtime. On a
    /// current-thread runtime it delays all calls.
    ///
    /// # Cancellation
    ///
    /// Dropping the stream aborts the calls that run. Their side effects may survive.
    pub fn batch(&self, batch: Batch) -> impl Stream<Item = (usize, CallOutcome)> + Send + 'static {
        let is_single = batch.calls.len() == 1;
        // A single call has no conflicts.
        let mut waiting = if is_single { Vec::new() } else { self.schedule(&batch) };
        let (pipeline, batch) = (self.clone(), Arc::new(batch));
        let outcome = move |place| {
            let (pipeline, batch) = (pipeline.clone(), Arc::clone(&batch));
            async move { Some((place, pipeline.call_of(&batch, batch.calls.get(place)?).await)) }
        };
        if is_single {
            return Either::Left(stream::once(outcome(0)).filter_map(ready));
        }
        let mut running = FuturesUnordered::new();
        Either::Right(stream::poll_fn(move |cx| {
            let unblocked = waiting.extract_if(.., |(_, blockers)| blockers.is_empty());
            running.extend(unblocked.map(|(place, _)| outcome(place)));
            let ended = ready!(running.poll_next_unpin(cx)).flatten();
            if let Some((ended, _)) = &ended {
                waiting.iter_mut().for_each(|(_, blockers)| blockers.retain(|place| place != ended));
            }
            Poll::Ready(ended)
        }))
    }

    /// Runs calls in parallel and waits for all; outcomes come in the order of the calls.
    ///
    /// # Cancellation
    ///
    /// As for [`batch`](Self::batch).
    pub async fn call_all(&self, batch: Batch) -> Vec<CallOutcome> {
        let mut outcomes: Vec<_> = self.batch(batch).collect().await;
        outcomes.sort_by_key(|(place, _)| *place);
        outcomes.into_iter().map(|(_, outcome)| outcome).collect()
    }

    async fn call_of(&self, batch: &Batch, call: &ToolCall) -> CallOutcome {
        let run = match batch.states.get(&call.id) {
            None => Arc::clone(&batch.run),
            Some(own) => {
                let state = own.clone().with_defaults(&batch.run.state);
                Arc::new(RunContext { state, ..RunContext::clone(&batch.run) })
            }
        };
        let mut cx = ToolContext::new(run, call.id.as_str());
        if let Some(resumed) = batch.resumed.get(&call.id) {
            cx = cx.with_resumed(resumed.clone());
        }
        let (tool, host, own) = match find::find(&batch.tools, &call.name) {
            Ok((tool, own)) => (Ok(&**tool), Host::Own(tool), own),
            Err(error) => (Err(error), Host::Caller, None),
        };
        let pipeline = self.or_own(own);
        pipeline.run(tool, call, &cx, host, Some(&batch.tools)).await
    }

    /// Returns the places of the calls, each with the places of the earlier calls that must end
    /// first. Conflicts that follow from others are left out: the number of places is linear in
    /// the number of touches.
    fn schedule(&self, batch: &Batch) -> Vec<(usize, Vec<usize>)> {
        // The last call that runs alone.
        let mut barrier: Option<usize> = None;
        // By resource: the last call that writes it, and the calls that read it since.
        let mut users: HashMap<String, (Option<usize>, Vec<usize>)> = HashMap::new();
        let blockers = |(place, call)| {
            let Some(touches) = self.touches(batch, call) else {
                users.clear();
                return (place, (barrier.replace(place).unwrap_or(0)..place).collect());
            };
            let mut blockers = Vec::from_iter(barrier);
            for Touch { resource, is_write } in touches {
                let (writer, readers) = users.entry(resource).or_default();
                blockers.extend(*writer);
                if is_write {
                    blockers.append(readers);
                    *writer = Some(place);
                } else {
                    readers.push(place);
                }
            }
            // A call that touches a resource twice does not wait for itself.
            blockers.retain(|blocker| *blocker != place);
            (place, blockers)
        };
        batch.calls.iter().enumerate().map(blockers).collect()
    }

    /// Returns the resources that a call uses. `None` if the call runs alone.
    fn touches(&self, batch: &Batch, call: &ToolCall) -> Option<Vec<Touch>> {
        let Some(tool) = batch.tools.get(&call.name) else { return Some(Vec::new()) };
        let policy = super::definition(&**tool).ok()?.policy();
        if policy.sequential {
            return None;
        }
        let Some(access) = &policy.touches else { return Some(Vec::new()) };
        let touches = match batch.resumed.get(&call.id).and_then(Resumed::approved) {
            Some(approved) => access.touches(approved),
            None => self.arguments(&batch.tools, call).ok().and_then(|it| access.touches(&it)),
        };
        if touches.is_none() {
            tracing::warn!(tool = call.name, call = call.id, "resources of a call unknown, it runs alone");
        }
        touches
    }
}
