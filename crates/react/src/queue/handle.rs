//! The handle for pushing calls to a queue.

use std::{
    fmt,
    hash::{BuildHasher as _, RandomState},
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use haft_core::{Pipeline, ToolCall, ToolError, limits, toolset::ToolList};
use serde::Serialize;

use super::results::{PLACEHOLDER_PREFIX, contains_placeholder};

/// A handle for pushing tool calls to a [`PendingQueue`](super::PendingQueue) from synchronous
/// code. Cheap to clone.
///
/// In an agent, each tool call has its own handle. The pushed calls are executed if the tool call
/// succeeds. They are discarded if the tool call fails, is suspended or is aborted, because a
/// repeated tool call would push them again.
#[derive(Clone)]
pub struct QueueHandle {
    pushed: Weak<PushedCalls>,
    tools: ToolList,
    pipeline: Pipeline,
}

impl QueueHandle {
    pub(super) fn new(pushed: &Arc<PushedCalls>, tools: ToolList, pipeline: Pipeline) -> Self {
        Self { pushed: Arc::downgrade(pushed), tools, pipeline }
    }

    /// Creates a handle that accepts no calls. A driver adds it to the state for listing tools, so
    /// that tools that take a `QueueHandle` are available. Each call then receives its own handle,
    /// from [`CallQueues`](super::CallQueues).
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_react::QueueHandle;
    ///
    /// assert!(QueueHandle::closed().push_call("price", ()).is_err());
    /// ```
    pub fn closed() -> Self {
        Self { pushed: Weak::new(), tools: ToolList::default(), pipeline: Pipeline::default() }
    }

    /// Pushes a call to the tool named `tool` and returns the placeholder for its result. Strings
    /// in `arguments` can contain the placeholders of earlier calls.
    ///
    /// # Errors
    ///
    /// Fails if no tool has the name `tool`, or if the arguments are invalid. The text of these
    /// errors is written for a model. Invalid arguments that contain a placeholder are accepted
    /// here and validated again when the call is executed.
    ///
    /// Fails with a [`QueueError`] as the source if the queue is full or closed. Also fails if
    /// `arguments` cannot be serialized.
    pub fn push_call(&self, tool: &str, arguments: impl Serialize) -> Result<String, ToolError> {
        let pushed = self.pushed.upgrade().ok_or_else(|| ToolError::failed(QueueError::Closed))?;
        let arguments = serde_json::to_string(&arguments).map_err(ToolError::failed)?;
        let call = ToolCall::new("", tool, arguments);
        match self.pipeline.validate(&self.tools, &call) {
            // Placeholders can make arguments invalid. The pipeline validates the arguments again
            // before the execution, when results have replaced the placeholders.
            Err(ToolError::InvalidArguments(_)) if contains_placeholder(&call.arguments) => {}
            checked => checked?,
        }
        pushed.push_call(call).map_err(ToolError::failed)
    }
}

/// An error of [`QueueHandle::push_call`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueueError {
    /// The queue was closed or dropped, or the tool call that received the handle has ended. A
    /// handle from [`QueueHandle::closed`] always returns this error.
    #[error("the queue is closed: the call would not be executed")]
    Closed,
    /// The queue or the run has already accepted the maximum number of calls. The field contains
    /// this maximum.
    #[error("no more calls can be pushed: {0} is the maximum for one queue or run")]
    Full(usize),
}

impl fmt::Debug for QueueHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueHandle").field("tools", &self.tools).finish_non_exhaustive()
    }
}

/// The calls that were pushed to a queue and wait until the queue or a driver takes them.
pub(super) struct PushedCalls {
    quota: Arc<Quota>,
    hash_keys: RandomState,
    state: Mutex<QueueState>,
}

#[derive(Default)]
struct QueueState {
    calls: Vec<ToolCall>,
    /// The number of calls pushed so far, including calls already taken. The number makes each
    /// placeholder unique.
    pushed_count: usize,
    is_closed: bool,
}

impl PushedCalls {
    pub(super) fn new(quota: &Arc<Quota>) -> Self {
        Self { quota: Arc::clone(quota), hash_keys: RandomState::new(), state: Mutex::default() }
    }

    /// Adds `call` and returns its new placeholder. The placeholder contains a 128-bit hash of the
    /// number of the call, keyed with the random `hash_keys`.
    fn push_call(&self, call: ToolCall) -> Result<String, QueueError> {
        let mut state = lock(&self.state);
        if state.is_closed {
            return Err(QueueError::Closed);
        }
        self.quota.take()?;
        state.pushed_count += 1;
        let [high, low] = [0_u8, 1].map(|half| self.hash_keys.hash_one((state.pushed_count, half)));
        let id = format!("{PLACEHOLDER_PREFIX}{high:016x}{low:016x}");
        state.calls.push(ToolCall { id: id.clone(), ..call });
        Ok(id)
    }

    /// Removes and returns the calls that were pushed since the previous `take`.
    pub(super) fn take(&self) -> Vec<ToolCall> {
        mem::take(&mut lock(&self.state).calls)
    }

    /// Removes and returns the calls that were not taken yet. Calls that are pushed later are
    /// rejected.
    pub(super) fn close(&self) -> Vec<ToolCall> {
        let mut state = lock(&self.state);
        state.is_closed = true;
        mem::take(&mut state.calls)
    }

    /// Discards the calls that were not taken yet, so that they no longer count towards the quota.
    /// Calls that are pushed later are rejected.
    pub(super) fn discard(&self) {
        self.quota.give_back(self.close().len());
    }

    pub(super) fn calls(&self) -> Vec<ToolCall> {
        lock(&self.state).calls.clone()
    }

    /// Returns the maximum number of calls, and the number of calls that can still be pushed.
    pub(super) fn quota(&self) -> (usize, usize) {
        (self.quota.max_calls, self.quota.left())
    }
}

/// A limit on the number of pushed calls. Several queues can share one quota.
pub(super) struct Quota {
    max_calls: usize,
    used: Mutex<usize>,
}

impl Quota {
    /// Creates a quota of `max_calls` calls in total, of which `left` calls can still be pushed.
    pub(super) fn new(max_calls: usize, left: usize) -> Arc<Self> {
        Arc::new(Self { max_calls, used: Mutex::new(max_calls.saturating_sub(left)) })
    }

    fn take(&self) -> Result<(), QueueError> {
        let mut used = lock(&self.used);
        if *used >= self.max_calls {
            return Err(QueueError::Full(self.max_calls));
        }
        *used += 1;
        Ok(())
    }

    fn give_back(&self, calls: usize) {
        let mut used = lock(&self.used);
        *used = used.saturating_sub(calls);
    }

    fn left(&self) -> usize {
        self.max_calls.saturating_sub(*lock(&self.used))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Default for PushedCalls {
    fn default() -> Self {
        Self::new(&Quota::new(limits::QUEUE_CALLS_TOTAL, limits::QUEUE_CALLS_TOTAL))
    }
}

impl fmt::Debug for PushedCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PushedCalls").field("calls", &self.calls()).finish_non_exhaustive()
    }
}
