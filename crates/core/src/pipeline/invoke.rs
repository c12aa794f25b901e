use std::{
    any::Any,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::{FutureExt as _, future::BoxFuture};
use serde_json::Value;
use tokio::{runtime::Handle, time::Instant};
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

use super::{CallDetails, Pipeline};
use crate::{
    call::{ToolError, ToolResponse},
    limits,
    panic_log::log_panic_text,
    pipeline::deadline::{self, WaitError},
    tool::{OnCancel, ScopeGuard, Tool, ToolContext, ToolDefinition},
};

type CallResult = Result<ToolResponse, ToolError>;

/// The called tool, and the tokio task on which it runs.
#[derive(Clone, Copy)]
pub(super) enum CalledTool<'a> {
    /// A tool that runs on the task of the caller. This avoids the cost of a new task.
    Inline(&'a dyn Tool),
    /// A tool that runs on a new task. On a multi-thread runtime, a tool that blocks its thread
    /// then delays only its own call.
    Spawned(&'a Arc<dyn Tool>),
}

impl<'a> CalledTool<'a> {
    pub(super) fn tool(self) -> &'a dyn Tool {
        match self {
            Self::Inline(tool) => tool,
            Self::Spawned(tool) => &**tool,
        }
    }
}

impl Pipeline {
    /// Calls `tool`. The timeout in the policy of its `definition` is measured from `started`.
    pub(super) async fn invoke(
        &self,
        tool: CalledTool<'_>,
        definition: &ToolDefinition,
        arguments: Value,
        cx: &ToolContext,
        started: Instant,
        details: &mut CallDetails<'_>,
    ) -> CallResult {
        if cx.run_context().cancellation.is_cancelled() {
            return Err(ToolError::Cancelled);
        }
        let cx = match started.checked_add(self.timeout_of(definition)) {
            Some(deadline) => cx.clone().limit_deadline(deadline),
            None => cx.clone(),
        };
        if cx.deadline().is_some_and(|deadline| deadline <= started) {
            return Err(ToolError::TimedOut { after: Duration::ZERO });
        }
        let guard = ScopeGuard::new(
            self.0.clone(),
            Arc::clone(&self.0.abandoned_calls),
            definition.policy().retries,
            cx.call_scope().cloned(),
        );
        let cx = cx.with_call_scope(guard.scope());
        let call = match tool {
            CalledTool::Inline(tool) => RunningCall::Inline(tool.call(arguments, &cx)),
            CalledTool::Spawned(tool) => RunningCall::spawn(tool, arguments, &cx)?,
        };
        let on_cancel = definition.policy().on_cancel.unwrap_or_default();
        let outcome = self.wait_for_call(call, &cx, started, on_cancel).await;
        details.is_cached = guard.is_cached();
        if !matches!(outcome, Err(ToolError::TimedOut { .. } | ToolError::Cancelled)) {
            guard.finish();
        }
        outcome
    }

    /// Awaits `call`. Interrupts it if the deadline in `cx` passes or the run is cancelled.
    async fn wait_for_call(
        &self,
        mut call: RunningCall<'_>,
        cx: &ToolContext,
        started: Instant,
        on_cancel: OnCancel,
    ) -> CallResult {
        let cancellation = &cx.run_context().cancellation;
        match deadline::timeout_at(cx.deadline(), cancellation, &mut call).await {
            Ok(outcome) => outcome,
            Err(interrupt) => self.end_call(call, interrupt, cx, started, on_cancel).await,
        }
    }

    /// Ends `call` after `interrupt`: waits for calls that end by themselves, then aborts the task
    /// of the call and waits for its end. See [`Pipeline::with_cancel_grace`]. The duration in a
    /// timeout error is measured from `started`.
    async fn end_call(
        &self,
        mut call: RunningCall<'_>,
        interrupt: WaitError,
        cx: &ToolContext,
        started: Instant,
        on_cancel: OnCancel,
    ) -> CallResult {
        let grace = self.0.cancel_grace.unwrap_or(limits::CANCEL_GRACE);
        let has_nested_calls = cx.call_scope().is_some_and(|scope| scope.has_nested_calls());
        let grace_left = match (&interrupt, on_cancel) {
            (_, OnCancel::Subtasks) => grace.saturating_add(limits::ABORT_WAIT),
            _ if has_nested_calls => grace.saturating_add(limits::ABORT_WAIT),
            (WaitError::Cancelled, OnCancel::Grace) => grace,
            _ => Duration::ZERO,
        };
        let mut outcome = None;
        if !grace_left.is_zero() {
            outcome = deadline::timeout(grace_left, &mut call).await.ok();
        }
        if let (None, RunningCall::Task(task)) = (&outcome, &call) {
            task.abort();
            outcome = deadline::timeout(limits::ABORT_WAIT, &mut call).await.ok();
        }
        match interrupt {
            WaitError::Cancelled => outcome.unwrap_or(Err(ToolError::Cancelled)),
            WaitError::NoTimer => Err(no_runtime_error()),
            WaitError::Elapsed => {
                let after = cx.deadline().map_or(Duration::ZERO, |deadline| deadline - started);
                Err(ToolError::TimedOut { after: whole_millis(after) })
            }
        }
    }
}

/// The code of a call. Dropping it cancels the call.
enum RunningCall<'a> {
    Inline(BoxFuture<'a, CallResult>),
    Task(AbortOnDropHandle<CallResult>),
}

impl RunningCall<'_> {
    /// Calls `tool` on a new tokio task.
    fn spawn(tool: &Arc<dyn Tool>, arguments: Value, cx: &ToolContext) -> Result<Self, ToolError> {
        let runtime = cx.run_context().runtime.clone().map_or_else(Handle::try_current, Ok);
        let Ok(runtime) = runtime else { return Err(no_runtime_error()) };
        let (tool, own_cx) = (Arc::clone(tool), cx.clone());
        let call = async move { tool.call(arguments, &own_cx).await };
        Ok(Self::Task(AbortOnDropHandle::new(runtime.spawn(call.in_current_span()))))
    }
}

impl Future for RunningCall<'_> {
    type Output = CallResult;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<CallResult> {
        match &mut *self {
            Self::Inline(call) => call.poll_unpin(cx),
            Self::Task(task) => task.poll_unpin(cx).map(|joined| match joined {
                Ok(outcome) => outcome,
                Err(error) if error.is_panic() => Err(panic_error(&*error.into_panic())),
                Err(_aborted) => Err(ToolError::Cancelled),
            }),
        }
    }
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
    tracing::error!("a tool panicked");
    log_panic_text(panic);
    ToolError::Failed {
        message: "the tool panicked; it may have done a part of its work".to_owned(),
        source: None,
    }
}
