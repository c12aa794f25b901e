//! A queue for each call of a batch.

use std::{collections::BTreeMap, sync::Arc};

use haft_core::{Pipeline, ToolCall, pipeline::CallOutcome, tool::State, toolset::ToolList};

use super::{Pushed, QueueHandle, Quota};

/// The calls that each call of a batch pushes, by its id. Only those of successful calls count: a
/// failed call may be made again, and a suspended one starts again.
pub(crate) struct CallQueues(BTreeMap<String, Arc<Pushed>>);

impl CallQueues {
    /// Creates a queue for each call, if a quota is given.
    pub(crate) fn new(calls: &[ToolCall], quota: Option<&Arc<Quota>>) -> Self {
        let queues = |quota: &Arc<Quota>| {
            calls.iter().map(|call| (call.id.clone(), Arc::new(Pushed::within(quota)))).collect()
        };
        Self(quota.map(queues).unwrap_or_default())
    }

    /// The handles of the calls, as their state. They push calls of `tools`.
    pub(crate) fn states(
        &self,
        tools: impl FnOnce() -> ToolList,
        pipeline: &Pipeline,
    ) -> BTreeMap<String, State> {
        if self.0.is_empty() {
            return BTreeMap::new();
        }
        let tools = tools();
        let handle = |pushed| QueueHandle::new(pushed, tools.clone(), pipeline.clone());
        self.0.iter().map(|(id, pushed)| (id.clone(), State::new().with(handle(pushed)))).collect()
    }

    /// Closes the queue of a call, and returns the calls that count.
    pub(crate) fn close(&self, id: &str, outcome: &CallOutcome) -> Vec<ToolCall> {
        let Some(pushed) = self.0.get(id) else { return Vec::new() };
        match outcome {
            CallOutcome::Finished(result) if result.is_success() => pushed.close(),
            _ => {
                pushed.discard();
                Vec::new()
            }
        }
    }
}

/// Abandoned calls have pushed nothing.
impl Drop for CallQueues {
    fn drop(&mut self) {
        self.0.values().for_each(|pushed| pushed.discard());
    }
}
