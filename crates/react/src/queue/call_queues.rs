//! The queues for calls that other tool calls push.

use std::{collections::BTreeMap, sync::Arc};

use haft_core::{
    Pipeline, ToolCall, limits,
    pipeline::{Batch, BatchCall, CallOutcome},
    toolset::ToolList,
};

use super::{PushedCalls, QueueHandle, Quota};
use crate::{Run, run::RunError};

/// A queue for each call of a batch. While a call is executed, it can push further calls to its
/// queue.
///
/// A driver creates `CallQueues` for each [`Effect::Call`](crate::Effect::Call), and
/// [closes](Self::close) the queue of each call before it reports the outcome of the call. The
/// pushed calls are executed only if the call that pushed them succeeds. A failed call may be
/// repeated, and a suspended call runs again from its start: both would push the same calls again.
///
/// A driver with queues also sets two values:
///
/// - [`QueueHandle::closed`] in the state for listing tools. Without this handle, tools that take a
///   [`QueueHandle`] are withheld from the model.
/// - [`QueueResolver`](super::QueueResolver) in [`Step::resolver`](crate::Step::resolver). The
///   resolver replaces placeholders with results.
///
/// # Cancellation
///
/// Dropping `CallQueues` discards the pushed calls of every queue that was not
/// [closed](Self::close).
///
/// # Examples
///
/// ```
/// use std::{pin::pin, sync::Arc};
///
/// use futures::StreamExt as _;
/// use haft_core::{ToolCall, ToolError, Toolset, limits, pipeline::Batch, tool, tool::HostState, toolset::ListContext};
/// use haft_react::{QueueHandle, Run, RunConfig, queue::CallQueues};
/// use serde_json::json;
///
/// /// Looks up a price.
/// #[tool]
/// fn price(item: String) -> usize {
///     item.len()
/// }
///
/// /// Writes an offer for a pen.
/// #[tool]
/// fn offer(#[tool(state)] calls: QueueHandle) -> Result<String, ToolError> {
///     Ok(format!("A pen is {}.", calls.push_call("price", json!({"item": "pen"}))?))
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let toolset = Toolset::new().with_tool(Price).with_tool(Offer);
/// let state = HostState::new().with_value(QueueHandle::closed());
/// let tools = toolset.list(&ListContext { state, ..ListContext::default() }).await;
/// let mut run = Run::new(&RunConfig::default(), "Make an offer.".into())?;
///
/// // For each `Effect::Call`.
/// let calls = vec![ToolCall::new("call_1", "offer", "{}")];
/// let queues = CallQueues::new(&run, &calls);
/// let mut batch = Batch::new(tools.clone(), calls);
/// queues.add_handles(&mut batch, &tools, toolset.pipeline());
/// let mut outcomes = pin!(toolset.pipeline().stream_batch(batch));
/// while let Some((_, outcome)) = outcomes.next().await {
///     queues.close(&outcome, &mut run)?;
///     // Report the outcome to the run here.
/// }
/// assert_eq!(run.added_calls_left(), limits::QUEUE_CALLS_TOTAL - 1);
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct CallQueues(BTreeMap<String, Arc<PushedCalls>>);

impl CallQueues {
    /// Creates a queue for each call in `calls`, the calls of one batch. Together, the queues
    /// accept as many calls as can still be [added](Run::added_calls_left) to `run`.
    pub fn new(run: &Run, calls: &[ToolCall]) -> Self {
        let quota = Quota::new(limits::QUEUE_CALLS_TOTAL, run.added_calls_left());
        Self(calls.iter().map(|call| (call.id.clone(), Arc::new(PushedCalls::new(&quota)))).collect())
    }

    /// Adds the [`QueueHandle`] of each call in `batch` to the [state](BatchCall::state) of the
    /// call. The handles accept calls to `tools`. `pipeline` validates the pushed calls.
    pub fn add_handles(&self, batch: &mut Batch, tools: &ToolList, pipeline: &Pipeline) {
        for BatchCall { call, state, .. } in &mut batch.calls {
            if let Some(pushed) = self.0.get(&call.id) {
                let handle = QueueHandle::new(pushed, tools.clone(), pipeline.clone());
                *state = std::mem::take(state).with_value(handle);
            }
        }
    }

    /// Closes the queue of the call with this `outcome`. If the call succeeded, its pushed calls
    /// are [added](Run::add_calls) to `run`. If it failed or is suspended, they are discarded.
    ///
    /// Call this method before the outcome is reported to `run`. If the run were saved between the
    /// report and this method call, the pushed calls would be lost.
    ///
    /// # Errors
    ///
    /// Fails in the same cases as [`Run::add_calls`].
    pub fn close(&self, outcome: &CallOutcome, run: &mut Run) -> Result<(), RunError> {
        let Some(pushed) = self.0.get(outcome.call_id()) else { return Ok(()) };
        match outcome {
            CallOutcome::Finished(result) if result.is_success() => run.add_calls(pushed.close()),
            _ => {
                pushed.discard();
                Ok(())
            }
        }
    }
}

impl Drop for CallQueues {
    fn drop(&mut self) {
        self.0.values().for_each(|pushed| pushed.discard());
    }
}
