//! Calls from synchronous code.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
};

use futures::FutureExt as _;
use tokio::{
    runtime::{Builder, Handle},
    task::coop,
};

use crate::call::ToolError;

/// More than tokio's budget of 128 operations per poll, in case a later version increases it.
const BUDGET: usize = 1024;

/// Runs a future on this thread until it completes.
///
/// # Errors
///
/// Fails inside a task of a tokio runtime, where it would deadlock. The error names the
/// asynchronous `method`.
pub(crate) fn block_on<F: Future>(method: &str, future: F) -> Result<F::Output, ToolError> {
    let inside_runtime = || {
        ToolError::Fatal(format!(
            "a blocking call inside an async runtime could never end: use `{method}(…).await` there"
        ))
    };
    if !can_block_thread() {
        return Err(inside_runtime());
    }
    let runtime = Builder::new_current_thread().enable_all().build().map_err(ToolError::failed)?;
    // `can_block_thread` does not detect tasks inside `tokio::task::unconstrained`; there,
    // `block_on` panics.
    let output = catch_unwind(AssertUnwindSafe(|| runtime.block_on(future)));
    // Dropping the runtime would wait for abandoned blocking calls.
    runtime.shutdown_background();
    output.map_err(|_panic| inside_runtime())
}

/// Returns `true` if the current code may block its thread.
///
/// This is the case outside a tokio runtime, in `spawn_blocking`, and in `block_in_place`. Use it
/// in synchronous wrappers of asynchronous code. Inside an async task, the check exhausts the
/// task's cooperative budget, so its next operation yields.
pub fn can_block_thread() -> bool {
    // Tokio has no API for this check. However, only tasks have a cooperative budget; blocking code
    // has none and can consume any amount.
    Handle::try_current().is_err() || (0..BUDGET).all(|_| coop::consume_budget().now_or_never().is_some())
}
