//! The queues for calls that other tool calls push.

use std::{collections::BTreeMap, sync::Arc};

use haft_core::{Pipeline, ToolCall, pipeline::CallOutcome, tool::HostState, toolset::ToolList};

use super::{PushedCalls, QueueHandle, Quota};

/// A queue for each call in a batch, by the id of the call. While a call is executed, it can push
/// further calls to its queue.
///
/// The pushed calls are executed only if the call that pushed them succeeds. A failed call may be
/// repeated, and a suspended call runs again from its start: both would push the same calls again.
pub(crate) struct CallQueues(BTreeMap<String, Arc<PushedCalls>>);

impl CallQueues {
    /// Creates a queue for each call in `calls`. If `quota` is `None`, creates no queues.
    pub(crate) fn new(calls: &[ToolCall], quota: Option<&Arc<Quota>>) -> Self {
        let queues = |quota: &Arc<Quota>| {
            calls.iter().map(|call| (call.id.clone(), Arc::new(PushedCalls::with_quota(quota)))).collect()
        };
        Self(quota.map(queues).unwrap_or_default())
    }

    /// Returns a [`HostState`] for each call, by the id of the call. This state contains the
    /// [`QueueHandle`] of the call, which accepts calls to `tools`.
    pub(crate) fn states(
        &self,
        tools: impl FnOnce() -> ToolList,
        pipeline: &Pipeline,
    ) -> BTreeMap<String, HostState> {
        if self.0.is_empty() {
            return BTreeMap::new();
        }
        let tools = tools();
        let handle = |pushed| QueueHandle::new(pushed, tools.clone(), pipeline.clone());
        self.0.iter().map(|(id, pushed)| (id.clone(), HostState::new().with_value(handle(pushed)))).collect()
    }

    /// Closes the queue of the call `id`, which ended with `outcome`. Returns the pushed calls if
    /// `outcome` is a success, and no calls otherwise.
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

/// Discards the calls that were pushed by calls without an outcome, for example after a
/// cancellation.
impl Drop for CallQueues {
    fn drop(&mut self) {
        self.0.values().for_each(|pushed| pushed.discard());
    }
}
