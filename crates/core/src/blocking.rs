//! Calls from synchronous code.

use std::future::Future;

use tokio::runtime::{Builder, Handle};

use crate::ToolError;

/// Runs a future to its end on this thread.
///
/// # Errors
///
/// Fails inside a runtime, where it could not end, with an error that names the asynchronous `method`.
pub(crate) fn block_on<F: Future>(method: &str, future: F) -> Result<F::Output, ToolError> {
    if Handle::try_current().is_ok() {
        return Err(ToolError::Fatal(format!(
            "a blocking call inside an async runtime could never end: use `{method}(…).await` there"
        )));
    }
    let runtime = Builder::new_current_thread().enable_all().build().map_err(ToolError::failed)?;
    let output = runtime.block_on(future);
    // Dropping the runtime would wait for blocking code that was given up at its deadline.
    runtime.shutdown_background();
    Ok(output)
}
