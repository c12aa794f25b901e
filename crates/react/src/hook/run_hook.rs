//! Runs hooks with a timeout and catches their panics.

use std::{future::Future, panic::catch_unwind, time::Duration};

use haft_core::{agent::AgentErrorKind, call::BoxError, limits, text::panic_text};
use tokio::{runtime::Handle, task::JoinError, time::sleep};
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

use super::HookContext;

/// The reason why a hook returned no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HookError {
    #[error("it took longer than {0:?}")]
    TimedOut(Duration),
    #[error("it panicked")]
    Panicked,
    #[error("the run was cancelled")]
    Cancelled,
    #[error("the runtime has no timer: enable it")]
    NoTimer,
}

/// Runs `code` of the host program like a [hook](run_hook). `kind` is the kind of the code in the
/// error.
pub(crate) async fn run_host_code<T, F>(
    kind: &'static str,
    timeout: Duration,
    cx: &HookContext,
    code: impl FnOnce(HookContext) -> F + Send + 'static,
) -> Result<T, AgentErrorKind>
where
    T: Send + 'static,
    F: Future<Output = Result<T, BoxError>> + Send,
{
    let source = match run_hook(timeout, cx, code).await {
        Ok(Ok(output)) => return Ok(output),
        Ok(Err(source)) => source,
        Err(HookError::Cancelled) => return Err(AgentErrorKind::Cancelled),
        Err(error) => error.into(),
    };
    Err(AgentErrorKind::HookFailed { hook: kind, source })
}

/// Runs `hook` on a separate tokio task, so the driver continues if the hook panics. The task runs
/// on the runtime for tool calls, if the context has one. A hook that blocks its thread stops the
/// driver only if the driver needs the same thread.
///
/// After the timeout or a cancellation of the run, the task is aborted, and this function waits for
/// its end, at most for [`limits::ABORT_WAIT`].
pub(crate) async fn run_hook<F: Future<Output: Send + 'static> + Send>(
    timeout: Duration,
    cx: &HookContext,
    hook: impl FnOnce(HookContext) -> F + Send + 'static,
) -> Result<F::Output, HookError> {
    // `sleep` panics if the runtime has no timer.
    let timer = catch_unwind(|| sleep(timeout)).map_err(|_no_timer| HookError::NoTimer)?;
    let runtime = cx.run.runtime.clone().unwrap_or_else(Handle::current);
    let cx = cx.clone();
    let cancellation = cx.run.cancellation.clone();
    let hook = async move { hook(cx).await };
    let mut task = AbortOnDropHandle::new(runtime.spawn(hook.in_current_span()));
    let error = tokio::select! {
        biased;
        ended = &mut task => return ended.map_err(log_panic),
        () = cancellation.cancelled() => HookError::Cancelled,
        () = timer => HookError::TimedOut(timeout),
    };
    // The locks and files of the hook are free when the run ends.
    task.abort();
    let _ = tokio::time::timeout(limits::ABORT_WAIT, task).await;
    Err(error)
}

/// Logs the panic of a hook. The panic message is not part of the returned error, because it may
/// contain sensitive data.
fn log_panic(error: JoinError) -> HookError {
    if let Ok(panic) = error.try_into_panic() {
        tracing::error!("a hook panicked");
        tracing::debug!(panic = panic_text(&*panic), "panic message of the hook");
    }
    HookError::Panicked
}
