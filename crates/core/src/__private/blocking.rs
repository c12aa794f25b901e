use std::panic::resume_unwind;

use tokio::{runtime::Handle, task::spawn_blocking};
use tokio_util::task::AbortOnDropHandle;
use tracing::Span;

use crate::{call::ToolError, tool::ToolContext};

/// Runs `call` on tokio's blocking thread pool. If the returned future is dropped before `call`
/// starts, `call` does not run.
///
/// A blocking call cannot be aborted. Its tool therefore has [`OnCancel::Grace`], so that a short
/// call ends within the grace period after a cancellation.
///
/// [`OnCancel::Grace`]: crate::tool::OnCancel::Grace
///
/// Fails with [`ToolError::Fatal`] outside a tokio runtime, and with [`ToolError::Cancelled`] if
/// the runtime shuts down before `call` starts.
pub async fn blocking<T, F>(cx: &ToolContext, call: F) -> Result<T, ToolError>
where
    T: Send + 'static,
    F: FnOnce(&ToolContext) -> T + Send + 'static,
{
    if Handle::try_current().is_err() {
        return Err(ToolError::Fatal(
            "a blocking tool needs a tokio runtime, for its pool of threads".to_owned(),
        ));
    }
    let (span, cx) = (Span::current(), cx.clone());
    let task = AbortOnDropHandle::new(spawn_blocking(move || span.in_scope(|| call(&cx))));
    task.await.map_err(|error| match error.try_into_panic() {
        // Resumes the panic of `call`. The pipeline catches it and reports the call as failed.
        Ok(panic) => resume_unwind(panic),
        Err(_shut_down) => ToolError::Cancelled,
    })
}
