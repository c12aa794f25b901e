//! A queue for each call of a batch.

use std::{collections::BTreeMap, sync::Arc};

use haft_core::{Pipeline, ToolCall, pipeline::CallOutcome, tool::State, toolset::ToolList};

use super::{Pushed, QueueHandle, Room};

/// What each call of a batch pushes, by its id. Only a call that goes well has pushed anything: one that failed may be made
/// again, and one that waits is, from its beginning.
pub(crate) struct Queues(BTreeMap<String, Arc<Pushed>>);

impl Queues {
    /// One for each call, if they may push.
    pub(crate) fn of(calls: &[ToolCall], room: Option<&Arc<Room>>) -> Self {
        let of = |room: &Arc<Room>| {
            calls.iter().map(|call| (call.id.clone(), Arc::new(Pushed::within(room)))).collect()
        };
        Self(room.map(of).unwrap_or_default())
    }

    /// The ends for the tools, which push calls of these tools.
    pub(crate) fn lend(
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

    /// What counts of what a call has pushed. It can push no more.
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

/// Calls that were given up have pushed nothing.
impl Drop for Queues {
    fn drop(&mut self) {
        self.0.values().for_each(|pushed| pushed.discard());
    }
}
