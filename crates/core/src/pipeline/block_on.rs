//! Blocking calls from synchronous code.

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

/// The number of operations that [`can_block_thread`] performs to exhaust the cooperative budget of
/// a task. Tokio's budget is 128 operations per poll. A higher number is used in case a later
/// version of tokio increases the budget.
const PROBES: usize = 1024;

/// Runs `future` on this thread until it completes.
///
/// # Errors
///
/// Fails inside a task of a tokio runtime, where blocking could deadlock. The error names `method`,
/// the async method to use instead. Also fails if no runtime can be created for `future`.
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
    // `can_block_thread` does not detect a task inside `tokio::task::unconstrained`. There,
    // `Runtime::block_on` panics, and the panic is converted to the same error.
    let output = catch_unwind(AssertUnwindSafe(|| runtime.block_on(future)));
    // Dropping the runtime would wait for abandoned calls that still block a thread.
    runtime.shutdown_background();
    output.map_err(|_panic| inside_runtime())
}

/// Returns `true` if the calling code is allowed to block its thread.
///
/// Blocking is allowed outside a tokio runtime, in `spawn_blocking`, and in `block_in_place`. Use
/// this function in synchronous wrappers of async code. Inside an async task, the function exhausts
/// the cooperative budget of the task, so the next tokio operation of the task yields. A task
/// inside `tokio::task::unconstrained` is not detected.
pub fn can_block_thread() -> bool {
    // Tokio has no API for this check, but only async tasks have a cooperative budget: outside a
    // task, `consume_budget` never yields.
    Handle::try_current().is_err() || (0..PROBES).all(|_| coop::consume_budget().now_or_never().is_some())
}
