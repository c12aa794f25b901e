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

/// How often a task may ask before tokio makes it wait its turn: 128 times, with room for a change of mind.
const BUDGET: usize = 1024;

/// Runs a future to its end on this thread.
///
/// # Errors
///
/// Fails on a thread that runs the tasks of a runtime, where it could not end, with an error that names the asynchronous `method`.
pub(crate) fn block_on<F: Future>(method: &str, future: F) -> Result<F::Output, ToolError> {
    let inside = || {
        ToolError::Fatal(format!(
            "a blocking call inside an async runtime could never end: use `{method}(…).await` there"
        ))
    };
    if !may_block() {
        return Err(inside());
    }
    let runtime = Builder::new_current_thread().enable_all().build().map_err(ToolError::failed)?;
    // A task that took itself out of tokio's bounds is not seen above, but refused by tokio, in its own way.
    let output = catch_unwind(AssertUnwindSafe(|| runtime.block_on(future)));
    // Dropping the runtime would wait for blocking code that was given up at its deadline.
    runtime.shutdown_background();
    output.map_err(|_panic| inside())
}

/// Whether this code may block its thread: it is no task of a tokio runtime, or runs in `spawn_blocking` or `block_in_place`.
///
/// For who offers to synchronous code what is asynchronous inside. A task that is not to block uses up its turn by asking.
pub fn may_block() -> bool {
    // Tokio tells nobody, but bounds what a task may do before it waits its turn; code that may block has no such bound.
    Handle::try_current().is_err() || (0..BUDGET).all(|_| coop::consume_budget().now_or_never().is_some())
}
