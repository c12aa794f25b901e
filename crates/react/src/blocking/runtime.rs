//! The tokio runtimes of [`BlockingAgent`](super::BlockingAgent).

use std::{
    future::Future,
    sync::{Arc, Mutex, PoisonError},
};

use futures::executor;
use haft_core::{agent::AgentErrorKind, pipeline::can_block_thread};
use tokio::runtime::{Builder, Handle, Runtime};

/// The number of threads of the runtime for the timers and connections of runs.
const DRIVER_THREADS: usize = 2;

/// The number of threads of the runtime for tool calls and hooks. A tool that blocks its thread can
/// delay other calls, but not the timers, which are on the other runtime.
const CALL_THREADS: usize = 4;

/// An [`AgentRuntime`] that starts on first use. All clones share it.
#[derive(Clone, Default)]
pub(super) struct SharedRuntime(Arc<Mutex<Option<Arc<AgentRuntime>>>>);

impl SharedRuntime {
    /// Returns the runtime, and starts it if this is the first call.
    pub(super) fn get_or_start(&self) -> Result<Arc<AgentRuntime>, AgentErrorKind> {
        let mut runtime = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(runtime) = &*runtime {
            return Ok(Arc::clone(runtime));
        }
        let started = Arc::new(AgentRuntime {
            driver: Some(start_runtime("haft-agent", DRIVER_THREADS)?),
            calls: Some(start_runtime("haft-calls", CALL_THREADS)?),
        });
        Ok(Arc::clone(runtime.insert(started)))
    }
}

fn start_runtime(name: &str, threads: usize) -> Result<Runtime, AgentErrorKind> {
    let runtime = Builder::new_multi_thread().worker_threads(threads).thread_name(name).enable_all().build();
    runtime.map_err(AgentErrorKind::StartRuntime)
}

/// Two tokio runtimes: one for the timers and connections of runs, the other for their tool calls
/// and hooks. Both fields are `Some` until the `AgentRuntime` is dropped.
pub(super) struct AgentRuntime {
    driver: Option<Runtime>,
    calls: Option<Runtime>,
}

impl AgentRuntime {
    /// Returns a handle to the runtime for tool calls and hooks. `None` only while the
    /// `AgentRuntime` is being dropped.
    pub(super) fn calls(&self) -> Option<Handle> {
        self.calls.as_ref().map(|runtime| runtime.handle().clone())
    }

    /// Runs `future` to completion on this thread, in the context of the driver runtime. Fails if
    /// this thread is not allowed to block. The error names `method`, the asynchronous method to
    /// use instead.
    pub(super) fn block_on<F: Future>(
        &self,
        method: &'static str,
        future: F,
    ) -> Result<F::Output, AgentErrorKind> {
        check_can_block(method)?;
        // `Runtime::block_on` would panic inside `tokio::task::unconstrained`, which
        // `check_can_block` does not detect.
        Ok(self.enter(|| executor::block_on(future)))
    }

    /// Runs `code` in the context of the driver runtime, so that it can create timers and spawn
    /// tasks.
    pub(super) fn enter<T>(&self, code: impl FnOnce() -> T) -> T {
        let _guard = self.driver.as_ref().map(Runtime::enter);
        code()
    }
}

impl Drop for AgentRuntime {
    fn drop(&mut self) {
        // Dropping a `Runtime` waits for its threads, and panics inside another runtime.
        // `shutdown_background` does not wait: the results of the remaining tasks are not needed.
        for runtime in [self.calls.take(), self.driver.take()].into_iter().flatten() {
            runtime.shutdown_background();
        }
    }
}

/// Checks that the current thread is allowed to block.
///
/// # Errors
///
/// Fails on a thread that is polling a task of a tokio runtime or of an executor in the `futures`
/// crate. The error names `method`, the asynchronous method to use instead.
pub(super) fn check_can_block(method: &'static str) -> Result<(), AgentErrorKind> {
    let can_block_here = executor::enter().is_ok() && can_block_thread();
    if can_block_here { Ok(()) } else { Err(AgentErrorKind::BlockingInRuntime(method)) }
}
