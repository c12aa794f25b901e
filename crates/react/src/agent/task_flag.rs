//! Waits for the tasks of a cancelled effect.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::atomic::{AtomicBool, Ordering},
    task::Poll,
};

use haft_core::agent::AgentErrorKind;

/// A flag that is set while the current effect of a run has tokio tasks: tool calls or hooks. These
/// tasks notice a cancellation themselves, and their owner waits for their end.
#[derive(Debug, Default)]
pub(super) struct TaskFlag(AtomicBool);

/// A guard that clears the flag of a [`TaskFlag`] when it is dropped.
pub(super) struct TaskGuard<'a>(&'a AtomicBool);

impl Drop for TaskGuard<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

impl TaskFlag {
    /// Sets the flag until the returned guard is dropped.
    pub(super) fn set(&self) -> TaskGuard<'_> {
        self.0.store(true, Ordering::Relaxed);
        TaskGuard(&self.0)
    }

    /// Polls `work`, the effects of a cancelled run, until the tasks of its current effect have
    /// ended. Without tasks, `work` is not polled again. The caller drops `work`, which aborts a
    /// model request.
    pub(super) async fn wait_for_end<T>(
        &self,
        mut work: Pin<&mut impl Future<Output = Result<T, AgentErrorKind>>>,
    ) -> Result<T, AgentErrorKind> {
        poll_fn(|cx| {
            if self.0.load(Ordering::Relaxed)
                && let Poll::Ready(result) = work.as_mut().poll(cx)
            {
                return Poll::Ready(result.map_err(|_error| AgentErrorKind::Cancelled));
            }
            match self.0.load(Ordering::Relaxed) {
                true => Poll::Pending,
                false => Poll::Ready(Err(AgentErrorKind::Cancelled)),
            }
        })
        .await
    }
}
