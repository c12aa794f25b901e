use std::{any::Any, future::Future, sync::Arc, time::Duration};

use futures::FutureExt as _;
use serde_json::Value;
use tokio::{runtime::Handle, time::Instant};
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

use super::{CallDetails, Pipeline};
use crate::{
    call::{ToolError, ToolResponse},
    pipeline::deadline::{self, WaitError},
    tool::{ScopeGuard, Tool, ToolContext},
};

type CallResult = Result<ToolResponse, ToolError>;

/// The tokio task on which a call runs.
#[derive(Clone, Copy)]
pub(super) enum CallTask<'a> {
    /// The task of the caller. This avoids the cost of a new task.
    Caller,
    /// A new task. On a multi-thread runtime, this ensures that a tool that blocks its thread
    /// delays only its own call.
    Spawned(&'a Arc<dyn Tool>),
}

impl Pipeline {
    /// Calls `tool`. The timeout in the tool's policy is measured from `started`.
    pub(super) async fn invoke(
        &self,
        task: CallTask<'_>,
        tool: &dyn Tool,
        arguments: Value,
        cx: &ToolContext,
        started: Instant,
        details: &mut CallDetails<'_>,
    ) -> CallResult {
        if cx.cancellation().is_cancelled() {
            return Err(ToolError::Cancelled);
        }
        let timeout = tool.definition().policy().timeout;
        let cx = match started.checked_add(timeout) {
            Some(deadline) => cx.clone().limit_deadline(deadline),
            None => cx.clone(),
        };
        if cx.deadline().is_some_and(|deadline| deadline <= started) {
            return Err(ToolError::TimedOut { after: Duration::ZERO });
        }
        let guard = ScopeGuard::new(
            self.0.clone(),
            Arc::clone(&self.0.abandoned_calls),
            tool.definition().clone(),
            cx.call_scope().cloned(),
        );
        let cx = cx.with_call_scope(guard.scope());
        let outcome = match task {
            CallTask::Caller => wait_until_deadline(tool.call(arguments, &cx), &cx, started).await,
            CallTask::Spawned(tool) => run_task(tool, arguments, &cx, started).await,
        };
        details.is_cached = guard.is_cached();
        if !matches!(outcome, Err(ToolError::TimedOut { .. } | ToolError::Cancelled)) {
            guard.finish();
        }
        outcome
    }
}

/// Calls `tool` on a new tokio task. Dropping the returned future aborts the task.
async fn run_task(tool: &Arc<dyn Tool>, arguments: Value, cx: &ToolContext, started: Instant) -> CallResult {
    let runtime = cx.run_context().runtime.clone().map_or_else(Handle::try_current, Ok);
    let Ok(runtime) = runtime else { return Err(no_runtime_error()) };
    let (tool, own_cx) = (Arc::clone(tool), cx.clone());
    let call = async move { tool.call(arguments, &own_cx).await };
    let task = AbortOnDropHandle::new(runtime.spawn(call.in_current_span()));
    let call = task.map(|joined| match joined {
        Ok(outcome) => outcome,
        Err(error) if error.is_panic() => Err(panic_error(&*error.into_panic())),
        Err(_aborted) => Err(ToolError::Cancelled),
    });
    wait_until_deadline(call, cx, started).await
}

/// Runs `call` until it completes. Fails if the deadline in `cx` passes or the run is cancelled
/// first. The duration in a timeout error is measured from `started`, the start of the call.
fn wait_until_deadline(
    call: impl Future<Output = CallResult> + Unpin,
    cx: &ToolContext,
    started: Instant,
) -> impl Future<Output = CallResult> {
    deadline::timeout_at(cx.deadline(), cx.cancellation(), call, move |error| {
        Err(match error {
            WaitError::Cancelled => ToolError::Cancelled,
            WaitError::NoTimer => no_runtime_error(),
            WaitError::Elapsed => {
                let after = cx.deadline().map_or(Duration::ZERO, |deadline| deadline - started);
                ToolError::TimedOut { after: whole_millis(after) }
            }
        })
    })
}

fn no_runtime_error() -> ToolError {
    ToolError::Fatal("a call that waits needs a tokio runtime with its timer enabled".to_owned())
}

fn whole_millis(duration: Duration) -> Duration {
    Duration::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

/// Returns the error for a tool that panicked with the payload `panic`.
///
/// The panic message may contain arguments of the call, so it is logged only at the level `debug`,
/// and the model receives a generic error text.
pub(super) fn panic_error(panic: &(dyn Any + Send)) -> ToolError {
    let text =
        panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    tracing::error!("a tool panicked");
    tracing::debug!(panic = text.unwrap_or("(no text)"), "panic message of the tool");
    ToolError::Failed {
        message: "the tool panicked; it may have done a part of its work".to_owned(),
        source: None,
    }
}
