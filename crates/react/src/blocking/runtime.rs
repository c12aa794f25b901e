//! The runtime of agents for synchronous code.

use std::{
    future::Future,
    sync::{Arc, Mutex, PoisonError},
};

use futures::executor;
use haft_core::{AgentErrorKind, may_block};
use tokio::runtime::{Builder, Runtime};

/// How many threads a runtime has: with two, a tool that blocks one of them does not hold up the clock.
const THREADS: usize = 2;

/// A runtime that begins when it is needed, and is one for all clones.
#[derive(Clone, Default)]
pub(super) struct Shared(Arc<Mutex<Option<Arc<OwnRuntime>>>>);

impl Shared {
    pub(super) fn get(&self) -> Result<Arc<OwnRuntime>, AgentErrorKind> {
        let mut runtime = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(runtime) = &*runtime {
            return Ok(Arc::clone(runtime));
        }
        let begun = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("haft-agent")
            .enable_all()
            .build();
        let begun = Arc::new(OwnRuntime(Some(begun.map_err(AgentErrorKind::Runtime)?)));
        Ok(Arc::clone(runtime.insert(begun)))
    }
}

/// There is one until it is dropped.
pub(super) struct OwnRuntime(Option<Runtime>);

impl OwnRuntime {
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
        let _entered = self.0.as_ref().map(Runtime::enter);
        code()
    }
}

impl Drop for OwnRuntime {
    fn drop(&mut self) {
        // To wait for its threads is not allowed inside another runtime, and what they do is nobody's any more.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// # Errors
///
/// Fails, and names the `method` to use there, on a thread that runs the tasks of a runtime or of another executor.
pub(super) fn check(method: &'static str) -> Result<(), AgentErrorKind> {
    let is_free = executor::enter().is_ok() && may_block();
    if is_free { Ok(()) } else { Err(AgentErrorKind::InsideRuntime(method)) }
}
