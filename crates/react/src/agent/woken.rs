//! A future that is polled only when something woke it.

#[cfg(test)]
mod tests;

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use futures::{
    future::{BoxFuture, Future},
    task::AtomicWaker,
};

/// A future that is polled only when something woke it, however often its owner is: an owner that gives what is there already costs no
/// look at all that it waits for.
pub(super) struct Woken<'f, T> {
    /// `None` once it is over.
    future: Option<BoxFuture<'f, T>>,
    signal: Arc<Signal>,
    waker: Waker,
}

struct Signal {
    is_due: AtomicBool,
    owner: AtomicWaker,
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_due.store(true, Ordering::Release);
        self.owner.wake();
    }
}

impl<'f, T> Woken<'f, T> {
    pub(super) fn new(future: BoxFuture<'f, T>) -> Self {
        let signal = Arc::new(Signal { is_due: AtomicBool::new(true), owner: AtomicWaker::new() });
        Self { future: Some(future), waker: Waker::from(Arc::clone(&signal)), signal }
    }

    /// What it came to, once; pending until then and ever after.
    pub(super) fn poll(&mut self, cx: &Context<'_>) -> Poll<T> {
        let Some(future) = &mut self.future else { return Poll::Pending };
        // Before the look: what wakes it from now on wakes this owner.
        self.signal.owner.register(cx.waker());
        if !self.signal.is_due.swap(false, Ordering::AcqRel) {
            return Poll::Pending;
        }
        let poll = Pin::new(future).poll(&mut Context::from_waker(&self.waker));
        if poll.is_ready() {
            self.future = None;
        }
        poll
    }
}
