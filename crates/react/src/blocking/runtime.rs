//! The runtime of agents for synchronous code.

use std::{
    future::Future,
    sync::{Arc, Mutex, PoisonError},
};

use futures::executor;
use haft_core::{agent::AgentErrorKind, pipeline::can_block_thread};
use tokio::runtime::{Builder, Handle, Runtime};

/// Number of threads for runs, timers and connections.
const DRIVER_THREADS: usize = 2;

/// Number of threads for calls. A tool that blocks its thread delays other calls only, not the
/// timers.
const CALL_THREADS: usize = 4;

/// A runtime that starts on first use and is shared by all clones.
#[derive(Clone, Default)]
pub(super) struct SharedRuntime(Arc<Mutex<Option<Arc<AgentRuntime>>>>);

impl SharedRuntime {
    pub(super) fn get(&self) -> Result<Arc<AgentRuntime>, AgentErrorKind> {
        let mut runtime = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(runtime) = &*runtime {
            return Ok(Arc::clone(runtime));
        }
        let started = Arc::new(AgentRuntime {
            driver: Some(start("haft-agent", DRIVER_THREADS)?),
            calls: Some(start("haft-calls", CALL_THREADS)?),
        });
        Ok(Arc::clone(runtime.insert(started)))
    }
}

fn start(name: &str, threads: usize) -> Result<Runtime, AgentErrorKind> {
    let runtime = Builder::new_multi_thread().worker_threads(threads).thread_name(name).enable_all().build();
    runtime.map_err(AgentErrorKind::Runtime)
}

/// The runtimes of an agent: for its runs, and for their calls. Both are `Some` until the drop.
pub(super) struct AgentRuntime {
    driver: Option<Runtime>,
    calls: Option<Runtime>,
}

impl AgentRuntime {
    /// The runtime for calls.
    pub(super) fn calls(&self) -> Option<Handle> {
        self.calls.as_ref().map(|runtime| runtime.handle().clone())
    }

    /// Runs a future to completion on this thread.
    pub(super) fn block_on<F: Future>(
        &self,
        method: &'static str,
        future: F,
    ) -> Result<F::Output, AgentErrorKind> {
        check(method)?;
        // `Runtime::block_on` panics on threads that belong to another runtime, even if they can
        // block.
        Ok(self.enter(|| executor::block_on(future)))
    }

    /// Runs code in the context of this runtime.
    pub(super) fn enter<T>(&self, code: impl FnOnce() -> T) -> T {
        let _guard = self.driver.as_ref().map(Runtime::enter);
        code()
    }
}

impl Drop for AgentRuntime {
    fn drop(&mut self) {
        // Waiting for the threads would panic inside another runtime. Their tasks have no owner any
        // more.
        for runtime in [self.calls.take(), self.driver.take()].into_iter().flatten() {
            runtime.shutdown_background();
        }
    }
}

/// Checks that this thread can block.
///
/// # Errors
///
/// Fails on a thread that runs the tasks of a runtime or of another executor. The error names the
/// `method` to use instead.
pub(super) fn check(method: &'static str) -> Result<(), AgentErrorKind> {
    let can_block_here = executor::enter().is_ok() && can_block_thread();
    if can_block_here { Ok(()) } else { Err(AgentErrorKind::BlockingInRuntime(method)) }
}
