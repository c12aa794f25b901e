//! The end of a queue that synchronous code holds.

use std::{
    fmt,
    hash::{BuildHasher as _, RandomState},
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use haft_core::{Pipeline, ToolCall, ToolError, ToolList, limits};
use serde::Serialize;

use super::results::{PREFIX, is_mentioned};

/// Pushes calls to a [`PendingQueue`](super::PendingQueue), from code that cannot wait for their results. Cheap to clone.
#[derive(Clone)]
pub struct QueueHandle {
    pushed: Weak<Pushed>,
    tools: ToolList,
    pipeline: Pipeline,
}

impl QueueHandle {
    pub(crate) fn new(pushed: &Arc<Pushed>, tools: ToolList, pipeline: Pipeline) -> Self {
        Self { pushed: Arc::downgrade(pushed), tools, pipeline }
    }

    /// Pushes a call, which is executed later, and gives the placeholder that stands for its result. `arguments` is anything that
    /// serialises; a text in it may hold placeholders of calls that were pushed before.
    ///
    /// # Errors
    ///
    /// Fails when there is no such tool or the arguments do not fit, with what the model would read of that; when too many calls
    /// were pushed; and when the queue is gone.
    pub fn push(&self, tool: &str, arguments: impl Serialize) -> Result<String, ToolError> {
        let pushed = self
            .pushed
            .upgrade()
            .ok_or_else(|| ToolError::failed("the queue is gone: nobody would execute what is pushed now"))?;
        let arguments = serde_json::to_string(&arguments).map_err(ToolError::failed)?;
        let mut call = ToolCall::new("", tool, arguments);
        match self.pipeline.validate(&self.tools, &call) {
            // What will stand in the place of a placeholder is held against the schema when it is there.
            Err(ToolError::InvalidArguments(_)) if is_mentioned(&call.arguments) => {}
            checked => checked?,
        }
        call.id = pushed.place()?;
        let placeholder = call.id.clone();
        pushed.lock().calls.push(call);
        Ok(placeholder)
    }
}

impl fmt::Debug for QueueHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueHandle").field("tools", &self.tools).finish_non_exhaustive()
    }
}

/// What synchronous code has pushed and nobody has taken yet.
pub(crate) struct Pushed {
    capacity: usize,
    keys: RandomState,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    calls: Vec<ToolCall>,
    /// How many there were in all.
    count: usize,
}

impl Pushed {
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self { capacity, keys: RandomState::new(), state: Mutex::default() }
    }

    /// What was pushed since the last time.
    pub(crate) fn take(&self) -> Vec<ToolCall> {
        mem::take(&mut self.lock().calls)
    }

    pub(super) fn calls(&self) -> Vec<ToolCall> {
        self.lock().calls.clone()
    }

    /// How many more calls may be pushed.
    pub(super) fn room(&self) -> usize {
        self.capacity.saturating_sub(self.lock().count)
    }

    /// A placeholder that was never used: 128 bits that depend on keys which nobody knows.
    fn place(&self) -> Result<String, ToolError> {
        let mut state = self.lock();
        if state.count >= self.capacity {
            return Err(ToolError::failed(format!(
                "no more calls can be pushed: {} are the most for one queue",
                self.capacity
            )));
        }
        state.count += 1;
        let [high, low] = [0_u8, 1].map(|half| self.keys.hash_one((state.count, half)));
        Ok(format!("{PREFIX}{high:016x}{low:016x}"))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Pushed {
    fn default() -> Self {
        Self::with_capacity(limits::QUEUED_CALLS)
    }
}

impl fmt::Debug for Pushed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pushed").field("calls", &self.calls()).finish_non_exhaustive()
    }
}
