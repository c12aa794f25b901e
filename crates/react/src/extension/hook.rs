//! Runs hooks with a timeout and catches their panics.

use std::{future::Future, panic::catch_unwind, time::Duration};

use haft_core::{agent::AgentErrorKind, call::BoxError, limits, text::panic_text};
use tokio::{runtime::Handle, task::JoinError, time::sleep};
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

use super::StepContext;

/// The reason why a hook returned no result.
#[derive(Debug, thiserror::Error)]
pub(super) enum HookError {
    #[error("it took longer than {0:?}")]
    TimedOut(Duration),
    #[error("it panicked")]
    Panicked,
    #[error("the run was cancelled")]
    Cancelled,
    #[error("the runtime has no timer: enable it")]
    NoTimer,
}

/// An error of a hook, with the name of the extension that added the hook.
#[derive(Debug, thiserror::Error)]
#[error("in the extension {extension:?}")]
struct ExtensionError {
    extension: String,
    source: BoxError,
}

impl HookError {
    /// Returns the result of a hook. An error of the hook itself and a [`HookError`] are both
    /// converted to the error that ends the run.
    pub(super) fn flatten<T>(
        result: Result<Result<T, BoxError>, Self>,
        extension: &str,
        hook: &'static str,
    ) -> Result<T, AgentErrorKind> {
        let source = match result {
            Ok(Ok(output)) => return Ok(output),
            Ok(Err(source)) => source,
            Err(Self::Cancelled) => return Err(AgentErrorKind::Cancelled),
            Err(error) => error.into(),
        };
        Err(AgentErrorKind::HookFailed { hook, source: with_extension_name(extension, source) })
    }
}

/// Adds the name of the extension to `source`. The hooks of the agent builder have the empty name:
/// `source` is then returned unchanged.
pub(super) fn with_extension_name(extension: &str, source: impl Into<BoxError>) -> BoxError {
    match extension {
        "" => source.into(),
        name => ExtensionError { extension: name.to_owned(), source: source.into() }.into(),
    }
}

/// Runs `hook` on a separate tokio task, so the driver continues if the hook panics. The task runs
/// on the runtime for tool calls, if the context has one. A hook that blocks its thread stops the
/// driver only if the driver needs the same thread.
///
/// After the timeout or a cancellation of the run, the task is aborted, and this function waits for
/// its end, at most for [`limits::ABORT_WAIT`].
pub(super) async fn run_hook<F: Future<Output: Send + 'static> + Send>(
    timeout: Duration,
    cx: &StepContext,
    hook: impl FnOnce(StepContext) -> F + Send + 'static,
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
