use std::{
    any::Any,
    future::Future,
    mem,
    panic::AssertUnwindSafe,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::FutureExt as _;
use serde_json::Value;
use tokio::{runtime::Handle, task::AbortHandle, time::Instant};
use tracing::Instrument as _;

use crate::{
    Tool, ToolContext, ToolError, ToolOutcome,
    deadline::{self, Ended},
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

/// Calls tools, with their deadline, and counts those that could not be stopped.
#[derive(Clone, Default)]
pub(super) struct Runner {
    abandoned: Arc<AtomicUsize>,
}

impl Runner {
    pub(super) fn abandoned(&self) -> usize {
        self.abandoned.load(Ordering::Relaxed)
    }

    /// Calls the tool; its deadline counts from `started`.
    pub(super) async fn invoke(
        &self,
        host: Host<'_>,
        tool: &dyn Tool,
        arguments: Value,
        cx: &ToolContext,
        started: Instant,
    ) -> Called {
        if cx.cancellation().is_cancelled() {
            return Err(ToolError::Cancelled);
        }
        let timeout = tool.definition().policy().timeout;
        let cx = match started.checked_add(timeout) {
            Some(deadline) => cx.clone().with_deadline(deadline),
            None => cx.clone(),
        };
        match host {
            Host::Caller => {
                let call = AssertUnwindSafe(tool.call(arguments, &cx)).catch_unwind();
                bounded(call, &cx, started).await?.unwrap_or_else(|panic| Err(panicked(&*panic)))
            }
            Host::Own(tool) => self.on_own_task(tool, arguments, &cx, started).await,
        }
    }

    async fn on_own_task(
        &self,
        tool: &Arc<dyn Tool>,
        arguments: Value,
        cx: &ToolContext,
        started: Instant,
    ) -> Called {
        let Ok(runtime) = Handle::try_current() else { return Err(no_runtime()) };
        let (tool, own_cx) = (Arc::clone(tool), cx.clone());
        let running = Running::default();
        let end = EndOf(running.clone());
        let call = async move {
            let _end = end;
            tool.call(arguments, &own_cx).await
        };
        let task = runtime.spawn(call.in_current_span());
        let _abort = AbortOnDrop(task.abort_handle());
        let outcome = bounded(task, cx, started).await;
        if matches!(outcome, Err(ToolError::TimedOut { .. })) {
            running.abandon(&self.abandoned);
        }
        match outcome? {
            Ok(outcome) => outcome,
            Err(error) if error.is_panic() => Err(panicked(&*error.into_panic())),
            Err(_aborted) => Err(ToolError::Cancelled),
        }
    }
}

/// Waits for a call until its deadline or its cancellation.
async fn bounded<F: Future>(call: F, cx: &ToolContext, started: Instant) -> Result<F::Output, ToolError> {
    deadline::until(cx.deadline(), cx.cancellation(), call).await.map_err(|ended| match ended {
        Ended::Cancelled => ToolError::Cancelled,
        Ended::NoTimer => no_runtime(),
        Ended::Elapsed => {
            let after = cx.deadline().map_or(Duration::ZERO, |deadline| deadline - started);
            ToolError::TimedOut { after: whole_millis(after) }
        }
    })
}

fn no_runtime() -> ToolError {
    ToolError::Fatal("a call that waits needs a tokio runtime with its timer enabled".to_owned())
}

fn whole_millis(duration: Duration) -> Duration {
    Duration::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

/// The text of a panic may hold anything: it goes to the trace, the model reads only that it happened.
fn panicked(panic: &(dyn Any + Send)) -> ToolError {
    let text =
        panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    tracing::error!(panic = text.unwrap_or("(no text)"), "a tool panicked");
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

/// A call on its own task, as its caller sees it.
#[derive(Clone, Default)]
struct Running(Arc<Mutex<Progress>>);

#[derive(Default)]
enum Progress {
    #[default]
    Running,
    /// Given up by its caller, and counted here until it ends.
    Abandoned(Arc<AtomicUsize>),
    Ended,
}

impl Running {
    /// Counts the call for as long as it runs on.
    fn abandon(&self, count: &Arc<AtomicUsize>) {
        let mut progress = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*progress, Progress::Running) {
            count.fetch_add(1, Ordering::Relaxed);
            *progress = Progress::Abandoned(Arc::clone(count));
        }
    }
}

/// Lives in the task, so that it is dropped when the call really ends.
struct EndOf(Running);

impl Drop for EndOf {
    fn drop(&mut self) {
        let mut progress = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Progress::Abandoned(count) = mem::replace(&mut *progress, Progress::Ended) {
            count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
