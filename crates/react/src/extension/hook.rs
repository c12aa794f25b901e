//! Execution of hooks.

use std::{future::Future, panic::catch_unwind, time::Duration};

use haft_core::{agent::AgentErrorKind, call::BoxError};
use tokio::{runtime::Handle, task::JoinError, time::sleep};
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

use super::StepContext;

/// The failure of a hook.
#[derive(Debug, thiserror::Error)]
pub(super) enum HookError {
    #[error("it took longer than {0:?}")]
    TimedOut(Duration),
    #[error("it panicked")]
    Panicked,
    #[error("the runtime has no timer: enable it")]
    NoTimer,
}

/// The error of a hook of a named extension.
#[derive(Debug, thiserror::Error)]
#[error("in the extension {extension:?}")]
struct ExtensionError {
    extension: String,
    source: BoxError,
}

impl HookError {
    /// Returns the result of a hook of this extension, or the error that ends the run.
    pub(super) fn flatten<T>(
        result: Result<Result<T, BoxError>, Self>,
        extension: &str,
        hook: &'static str,
    ) -> Result<T, AgentErrorKind> {
        let result = result.map_err(BoxError::from).and_then(|result| result);
        result.map_err(|source| AgentErrorKind::Hook { hook, source: named(extension, source) })
    }
}

/// Adds the name of the extension to an error. The hooks of an agent itself have no name.
pub(super) fn named(extension: &str, source: impl Into<BoxError>) -> BoxError {
    match extension {
        "" => source.into(),
        name => ExtensionError { extension: name.to_owned(), source: source.into() }.into(),
    }
}

/// Runs a hook on its own task, on the runtime for calls, so that a hook that panics or blocks its
/// thread does not affect the driver.
pub(super) async fn run_hook<F: Future<Output: Send + 'static> + Send>(
    timeout: Duration,
    cx: &StepContext,
    hook: impl FnOnce(StepContext) -> F + Send + 'static,
) -> Result<F::Output, HookError> {
    // Tokio panics if the runtime has no timer.
    let timer = catch_unwind(|| sleep(timeout)).map_err(|_no_timer| HookError::NoTimer)?;
    let runtime = cx.run.runtime.clone().unwrap_or_else(Handle::current);
    let cx = cx.clone();
    let task = AbortOnDropHandle::new(runtime.spawn(async move { hook(cx).await }.in_current_span()));
    tokio::select! {
        biased;
        ended = task => ended.map_err(panicked),
        () = timer => Err(HookError::TimedOut(timeout)),
    }
}

/// Logs a panic. Its text may contain sensitive data, so that it is not part of the error.
fn panicked(error: JoinError) -> HookError {
    if let Ok(panic) = error.try_into_panic() {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        tracing::error!(panic = text.unwrap_or("(no text)"), "a hook panicked");
    }
    HookError::Panicked
}
