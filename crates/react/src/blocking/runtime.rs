//! The runtime of agents for synchronous code.

use std::{
    future::Future,
    sync::{Arc, Mutex, PoisonError},
};

use futures::executor;
use haft_core::{agent::AgentErrorKind, pipeline::can_block_thread};
use tokio::runtime::{Builder, Handle, Runtime};

/// How many threads drive runs, tell the time and serve connections.
const DRIVERS: usize = 2;

/// How many threads make calls. A tool that blocks one of them holds up a call at most, never the clock.
const CALLERS: usize = 4;

/// A runtime that begins when it is needed, and is one for all clones.
#[derive(Clone, Default)]
pub(super) struct Shared(Arc<Mutex<Option<Arc<OwnRuntime>>>>);

impl Shared {
    pub(super) fn get(&self) -> Result<Arc<OwnRuntime>, AgentErrorKind> {
        let mut runtime = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(runtime) = &*runtime {
            return Ok(Arc::clone(runtime));
        }
        let begun = Arc::new(OwnRuntime {
            driver: Some(begin("haft-agent", DRIVERS)?),
            calls: Some(begin("haft-calls", CALLERS)?),
        });
        Ok(Arc::clone(runtime.insert(begun)))
    }
}

fn begin(name: &str, threads: usize) -> Result<Runtime, AgentErrorKind> {
    let begun = Builder::new_multi_thread().worker_threads(threads).thread_name(name).enable_all().build();
    begun.map_err(AgentErrorKind::Runtime)
}

/// There are two until it is dropped.
pub(super) struct OwnRuntime {
    driver: Option<Runtime>,
    calls: Option<Runtime>,
}

impl OwnRuntime {
    /// Where calls are made.
    pub(super) fn calls(&self) -> Option<Handle> {
        self.calls.as_ref().map(|runtime| runtime.handle().clone())
    }

    /// Waits on this thread for a future.
    pub(super) fn block_on<F: Future>(
        &self,
        method: &'static str,
        future: F,
    ) -> Result<F::Output, AgentErrorKind> {
        check(method)?;
        // Not by the runtime's own `block_on`, which panics where it takes a thread for one of its kind.
        Ok(self.within(|| executor::block_on(future)))
    }

    /// Runs code that finds this runtime where it looks for one.
    pub(super) fn within<T>(&self, code: impl FnOnce() -> T) -> T {
        let _entered = self.driver.as_ref().map(Runtime::enter);
        code()
    }
}

impl Drop for OwnRuntime {
    fn drop(&mut self) {
        // To wait for its threads is not allowed inside another runtime, and what they do is nobody's any more.
        for runtime in [self.calls.take(), self.driver.take()].into_iter().flatten() {
            runtime.shutdown_background();
        }
    }
}

/// # Errors
///
/// Fails, and names the `method` to use there, on a thread that runs the tasks of a runtime or of another executor.
pub(super) fn check(method: &'static str) -> Result<(), AgentErrorKind> {
    let is_free = executor::enter().is_ok() && can_block_thread();
    if is_free { Ok(()) } else { Err(AgentErrorKind::BlockingInRuntime(method)) }
}
