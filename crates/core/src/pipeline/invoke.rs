use std::{any::Any, future::Future, sync::Arc, time::Duration};

use futures::FutureExt as _;
use serde_json::Value;
use tokio::{runtime::Handle, task::AbortHandle, time::Instant};
use tracing::Instrument as _;

use super::{Notes, Pipeline};
use crate::{
    call::{ToolError, ToolOutcome},
    pipeline::deadline::{self, Ended},
    tool::{ScopeGuard, Tool, ToolContext},
};

type Called = Result<ToolOutcome, ToolError>;

/// Whose task a tool runs on.
#[derive(Clone, Copy)]
pub(super) enum Host<'a> {
    /// The caller's: cheapest.
    Caller,
    /// One of its own, so that code that blocks costs only itself.
    Own(&'a Arc<dyn Tool>),
}

impl Pipeline {
    /// Calls the tool; its deadline counts from `started`.
    pub(super) async fn invoke(
        &self,
        host: Host<'_>,
        tool: &dyn Tool,
        arguments: Value,
        cx: &ToolContext,
        started: Instant,
        notes: &mut Notes<'_>,
    ) -> Called {
        if cx.cancellation().is_cancelled() {
            return Err(ToolError::Cancelled);
        }
        let timeout = tool.definition().policy().timeout;
        let cx = match started.checked_add(timeout) {
            Some(deadline) => cx.clone().with_deadline(deadline),
            None => cx.clone(),
        };
        if cx.deadline().is_some_and(|deadline| deadline <= started) {
            return Err(ToolError::TimedOut { after: Duration::ZERO });
        }
        let guard = ScopeGuard::new(
            self.0.clone(),
            Arc::clone(&self.0.abandoned),
            tool.definition().clone(),
            cx.scope().cloned(),
        );
        let cx = cx.with_scope(guard.scope());
        let outcome = match host {
            Host::Caller => bounded(tool.call(arguments, &cx), &cx, started).await,
            Host::Own(tool) => on_own_task(tool, arguments, &cx, started).await,
        };
        notes.is_cached = guard.is_cached();
        if !matches!(outcome, Err(ToolError::TimedOut { .. } | ToolError::Cancelled)) {
            guard.finish();
        }
        outcome
    }
}

async fn on_own_task(tool: &Arc<dyn Tool>, arguments: Value, cx: &ToolContext, started: Instant) -> Called {
    let runtime = cx.run().runtime.clone().map_or_else(Handle::try_current, Ok);
    let Ok(runtime) = runtime else { return Err(no_runtime()) };
    let (tool, own_cx) = (Arc::clone(tool), cx.clone());
    let call = async move { tool.call(arguments, &own_cx).await };
    let task = runtime.spawn(call.in_current_span());
    let _abort = AbortOnDrop(task.abort_handle());
    let called = task.map(|joined| match joined {
        Ok(outcome) => outcome,
        Err(error) if error.is_panic() => Err(panicked(&*error.into_panic())),
        Err(_aborted) => Err(ToolError::Cancelled),
    });
    bounded(called, cx, started).await
}

/// Waits for a call until its deadline or its cancellation.
fn bounded(
    call: impl Future<Output = Called> + Unpin,
    cx: &ToolContext,
    started: Instant,
) -> impl Future<Output = Called> {
    deadline::until(cx.deadline(), cx.cancellation(), call, move |ended| {
        Err(match ended {
            Ended::Cancelled => ToolError::Cancelled,
            Ended::NoTimer => no_runtime(),
            Ended::Elapsed => {
                let after = cx.deadline().map_or(Duration::ZERO, |deadline| deadline - started);
                ToolError::TimedOut { after: whole_millis(after) }
            }
        })
    })
}

fn no_runtime() -> ToolError {
    ToolError::Fatal("a call that waits needs a tokio runtime with its timer enabled".to_owned())
}

fn whole_millis(duration: Duration) -> Duration {
    Duration::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

/// The text of a panic may hold anything, arguments too: it goes to the trace of who asks for the details, the model reads only
/// that it happened.
pub(super) fn panicked(panic: &(dyn Any + Send)) -> ToolError {
    let text =
        panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    tracing::error!("a tool panicked");
    tracing::debug!(panic = text.unwrap_or("(no text)"), "what the panic said");
    ToolError::Failed {
        message: "the tool panicked; it may have done a part of its work".to_owned(),
        source: None,
    }
}

struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
