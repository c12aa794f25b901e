//! A queue for each call of a batch.

use std::{collections::BTreeMap, sync::Arc};

use haft_core::{Pipeline, ToolCall, pipeline::CallOutcome, tool::State, toolset::ToolList};

use super::{PushedCalls, QueueHandle, Quota};

/// The queue of each call of a batch, by call id. The pushed calls of a call are used only if it
/// succeeds: a failed call may be repeated, and a suspended call restarts.
pub(crate) struct CallQueues(BTreeMap<String, Arc<PushedCalls>>);

impl CallQueues {
    /// Creates a queue for each call, if a quota is given.
    pub(crate) fn new(calls: &[ToolCall], quota: Option<&Arc<Quota>>) -> Self {
        let queues = |quota: &Arc<Quota>| {
            calls.iter().map(|call| (call.id.clone(), Arc::new(PushedCalls::with_quota(quota)))).collect()
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

    /// Closes the queue of a call. Returns its pushed calls if the call succeeded.
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

/// Discards the pushed calls of abandoned calls.
impl Drop for CallQueues {
    fn drop(&mut self) {
        self.0.values().for_each(|pushed| pushed.discard());
    }
}
