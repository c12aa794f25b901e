//! Which calls still run although nobody waits for them.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

/// Lives as long as a call runs: whoever does a part of its work holds it.
pub(crate) struct InFlight {
    abandoned_calls: Arc<AtomicUsize>,
    is_abandoned: AtomicBool,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if *self.is_abandoned.get_mut() {
            self.abandoned_calls.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// The caller's side of a call. Dropped before the call [`ended`](Self::ended), it counts the call until what is left
/// of it ends.
pub(crate) struct Watch(Option<Arc<InFlight>>);

impl Watch {
    pub(crate) fn new(abandoned_calls: &Arc<AtomicUsize>) -> Self {
        let abandoned_calls = Arc::clone(abandoned_calls);
        Self(Some(Arc::new(InFlight { abandoned_calls, is_abandoned: AtomicBool::new(false) })))
    }

    /// What the call holds.
    pub(crate) fn token(&self) -> Option<Arc<InFlight>> {
        self.0.clone()
    }

    pub(crate) fn ended(mut self) {
        self.0 = None;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(call) = self.0.take() {
            call.abandoned_calls.fetch_add(1, Ordering::Relaxed);
            // Where nothing is left of the call, this is the last token, and dropping it counts down again.
            call.is_abandoned.store(true, Ordering::Relaxed);
        }
    }
}
