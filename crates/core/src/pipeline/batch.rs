use std::{collections::BTreeMap, future::ready, sync::Arc};

use futures::{
    future::Either,
    stream::{self, FuturesUnordered, Stream, StreamExt as _},
};

use super::{Arguments, CallOutcome, Pipeline, find, invoke::Host};
use crate::{
    call::{ResumedCalls, ToolCall},
    pipeline::ToolList,
    tool::{RunContext, State, ToolContext},
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
    /// Runs calls in parallel, each on a task of its own, and gives their outcomes as they come, each with its
    /// place in the batch.
    ///
    /// A [sequential](crate::tool::Policy::sequential) tool is a barrier: calls before it end first, it runs alone,
    /// calls after it wait. A tool that blocks its thread costs only itself on a multi-thread runtime; on one
    /// thread nothing can prevent that it holds up the rest.
    ///
    /// # Cancellation
    ///
    /// Dropping the stream aborts every call that is under way. Effects may have happened.
    pub fn batch(&self, batch: Batch) -> impl Stream<Item = (usize, CallOutcome)> + Send + 'static {
        let pipeline = self.clone();
        let stages = stages(&batch);
        let batch = Arc::new(batch);
        stream::iter(stages)
            .map(move |stage| {
                let outcome = |place| {
                    let (pipeline, batch) = (pipeline.clone(), Arc::clone(&batch));
                    async move { Some((place, pipeline.call_of(&batch, batch.calls.get(place)?).await)) }
                };
                // Most replies ask for one call, which needs nothing that keeps several apart.
                let outcomes = match stage.len() {
                    1 => Either::Left(stream::once(outcome(stage.start))),
                    _ => Either::Right(stage.map(outcome).collect::<FuturesUnordered<_>>()),
                };
                outcomes.filter_map(ready)
            })
            .flatten()
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
        let (tool, host) = match find::find(&batch.tools, &call.name) {
            Ok(tool) => (Ok(&**tool), Host::Own(tool)),
            Err(error) => (Err(error), Host::Caller),
        };
        let pipeline = self.for_tool(&batch.tools, &call.name);
        pipeline.run(tool, call, Arguments::Text(&call.arguments), &cx, host, Some(&batch.tools)).await
    }
}

/// Runs of places whose calls may overlap.
fn stages(batch: &Batch) -> Vec<std::ops::Range<usize>> {
    let sequential = |call: &ToolCall| {
        batch.tools.get(&call.name).is_some_and(|tool| tool.definition().policy().sequential)
    };
    let mut stages: Vec<std::ops::Range<usize>> = Vec::new();
    let mut after_barrier = true;
    for (place, call) in batch.calls.iter().enumerate() {
        let barrier = sequential(call);
        match stages.last_mut() {
            Some(stage) if !barrier && !after_barrier => stage.end = place + 1,
            _ => stages.push(place..place + 1),
        }
        after_barrier = barrier;
    }
    stages
}
