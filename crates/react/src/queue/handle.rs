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
/// In an agent, each call of a tool with a `QueueHandle` parameter has a handle of its own. The
/// pushed calls are executed after the tool returns and before its call has a result. If the tool
/// fails, is suspended or is aborted, the pushed calls are discarded, because a repeated call would
/// push them again.
///
/// A tool without such a parameter [declares](haft_core::ToolDefinition::with_state_type) the type
/// `QueueHandle`, and reads the handle from the state of its context.
#[derive(Clone)]
pub struct QueueHandle {
    pushed: Weak<PushedCalls>,
    tools: ToolList,
    pipeline: Pipeline,
    /// The tools whose calls push to this queue: the tool that received the handle and, if its call
    /// was pushed, the tools that led to it.
    callers: Arc<[String]>,
}

impl QueueHandle {
    pub(super) fn new(
        pushed: &Arc<PushedCalls>,
        tools: ToolList,
        pipeline: Pipeline,
        callers: Arc<[String]>,
    ) -> Self {
        Self { pushed: Arc::downgrade(pushed), tools, pipeline, callers }
    }

    /// Creates a handle that accepts no calls.
    pub(super) fn closed() -> Self {
        Self {
            pushed: Weak::new(),
            tools: ToolList::default(),
            pipeline: Pipeline::default(),
            callers: Arc::default(),
        }
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
    /// Fails with a [`QueueError`] as the source if the queue is full or closed, or if the call
    /// would be nested in a call to the same tool or nested too deeply. Also fails if `arguments`
    /// cannot be serialized.
    pub fn push_call(&self, tool: &str, arguments: impl Serialize) -> Result<String, ToolError> {
        let pushed = self.pushed.upgrade().ok_or_else(|| ToolError::failed(QueueError::Closed))?;
        if self.callers.iter().any(|caller| caller == tool) {
            return Err(ToolError::failed(QueueError::Recursive));
        }
        if self.callers.len() > MAX_DEPTH {
            return Err(ToolError::failed(QueueError::TooDeep(MAX_DEPTH)));
        }
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

/// The maximum nesting depth of calls that pushed calls push.
const MAX_DEPTH: usize = 8;

/// An error of [`QueueHandle::push_call`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueueError {
    /// The queue was dropped, or the tool that received the handle has returned.
    #[error("the queue is closed: the call would not be executed")]
    Closed,
    /// The queue has already accepted the maximum number of calls. The field contains this maximum.
    #[error("no more calls can be pushed: {0} is the maximum for one queue")]
    Full(usize),
    /// The call would be nested in a call to the same tool.
    #[error("a tool cannot push a call to itself, also not through other tools")]
    Recursive,
    /// The pushing call itself is nested too deeply in pushed calls. The field contains the maximum
    /// depth.
    #[error("no calls can be pushed here: pushed calls are nested at most {0} deep")]
    TooDeep(usize),
}

impl fmt::Debug for QueueHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueHandle").field("tools", &self.tools).finish_non_exhaustive()
    }
}

/// The calls that were pushed to a queue and wait until the queue takes them.
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

    pub(super) fn calls(&self) -> Vec<ToolCall> {
        lock(&self.state).calls.clone()
    }

    pub(super) fn quota(&self) -> &Arc<Quota> {
        &self.quota
    }
}

/// A limit on the number of pushed calls. The queues of nested calls share the quota of the
/// outermost call.
pub(super) struct Quota {
    pub(super) max_calls: usize,
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

    /// Returns the number of calls that can still be pushed.
    pub(super) fn left(&self) -> usize {
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
