//! The end of a queue that synchronous code holds.

use std::{
    fmt,
    hash::{BuildHasher as _, RandomState},
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use haft_core::{Pipeline, ToolCall, ToolError, limits, toolset::ToolList};
use serde::Serialize;

use super::results::{PREFIX, is_mentioned};

/// Pushes calls to a [`PendingQueue`](super::PendingQueue), from code that cannot wait for their results. Cheap to clone.
///
/// Inside an agent each call has a handle of its own. What it pushes is executed if the call goes well; what a call pushes that fails,
/// is given up or begins to wait was never pushed, so that a call that is made again has pushed once.
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
    /// Fails when there is no such tool or the arguments do not fit, with what the model would read of that; and with a
    /// [`QueueError`] as its source when too many calls were pushed, and when nobody would execute it.
    pub fn push(&self, tool: &str, arguments: impl Serialize) -> Result<String, ToolError> {
        let pushed = self.pushed.upgrade().ok_or_else(|| ToolError::failed(QueueError::Closed))?;
        let arguments = serde_json::to_string(&arguments).map_err(ToolError::failed)?;
        let call = ToolCall::new("", tool, arguments);
        match self.pipeline.validate(&self.tools, &call) {
            // What will stand in the place of a placeholder is held against the schema when it is there.
            Err(ToolError::InvalidArguments(_)) if is_mentioned(&call.arguments) => {}
            checked => checked?,
        }
        pushed.push(call).map_err(ToolError::failed)
    }
}

/// Why a queue takes no call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueueError {
    /// The queue is gone, or the call that the handle was given to has ended.
    #[error("the queue is closed: nobody would execute what is pushed now")]
    Closed,
    /// There is no more room.
    #[error("no more calls can be pushed: {0} are the most for one queue")]
    Full(usize),
}

impl fmt::Debug for QueueHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueHandle").field("tools", &self.tools).finish_non_exhaustive()
    }
}

/// What synchronous code has pushed and nobody has taken yet.
pub(crate) struct Pushed {
    room: Arc<Room>,
    keys: RandomState,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    calls: Vec<ToolCall>,
    /// How many there were in all.
    count: usize,
    is_closed: bool,
}

impl Pushed {
    pub(crate) fn within(room: &Arc<Room>) -> Self {
        Self { room: Arc::clone(room), keys: RandomState::new(), state: Mutex::default() }
    }

    /// Gives the call a placeholder that was never used: 128 bits that depend on keys which nobody knows.
    fn push(&self, call: ToolCall) -> Result<String, QueueError> {
        let mut state = lock(&self.state);
        if state.is_closed {
            return Err(QueueError::Closed);
        }
        self.room.take()?;
        state.count += 1;
        let [high, low] = [0_u8, 1].map(|half| self.keys.hash_one((state.count, half)));
        let id = format!("{PREFIX}{high:016x}{low:016x}");
        state.calls.push(ToolCall { id: id.clone(), ..call });
        Ok(id)
    }

    /// What was pushed since the last time.
    pub(super) fn take(&self) -> Vec<ToolCall> {
        mem::take(&mut lock(&self.state).calls)
    }

    /// The same, and the last.
    pub(super) fn close(&self) -> Vec<ToolCall> {
        let mut state = lock(&self.state);
        state.is_closed = true;
        mem::take(&mut state.calls)
    }

    /// Nothing was pushed, and nothing will be.
    pub(super) fn discard(&self) {
        self.room.give_back(self.close().len());
    }

    pub(super) fn calls(&self) -> Vec<ToolCall> {
        lock(&self.state).calls.clone()
    }

    /// How many more calls may be pushed.
    pub(super) fn room(&self) -> usize {
        self.room.left()
    }
}

/// How many calls may be pushed, to one queue or to several that share it.
pub(crate) struct Room {
    capacity: usize,
    used: Mutex<usize>,
}

impl Room {
    pub(crate) fn new(capacity: usize) -> Arc<Self> {
        Arc::new(Self { capacity, used: Mutex::default() })
    }

    fn take(&self) -> Result<(), QueueError> {
        let mut used = lock(&self.used);
        if *used >= self.capacity {
            return Err(QueueError::Full(self.capacity));
        }
        *used += 1;
        Ok(())
    }

    fn give_back(&self, calls: usize) {
        let mut used = lock(&self.used);
        *used = used.saturating_sub(calls);
    }

    fn left(&self) -> usize {
        self.capacity.saturating_sub(*lock(&self.used))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Default for Pushed {
    fn default() -> Self {
        Self::within(&Room::new(limits::QUEUED_CALLS))
    }
}

impl fmt::Debug for Pushed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pushed").field("calls", &self.calls()).finish_non_exhaustive()
    }
}
