//! Capture of the `tracing` events of one test, while other tests run without a subscriber.

use tracing::{
    Dispatch, Subscriber,
    subscriber::{self, DefaultGuard, NoSubscriber},
};

/// Sets `subscriber` for the current thread until the returned guard is dropped. The returned
/// dispatcher must live as long as the guard.
///
/// With a single dispatcher, `tracing` caches for all threads if a callsite is enabled, and another
/// thread without a subscriber may have disabled it. With a second dispatcher, `tracing` checks the
/// subscriber of the thread each time.
pub(crate) fn capture(subscriber: impl Subscriber + Send + Sync) -> (DefaultGuard, Dispatch) {
    let second = Dispatch::new(NoSubscriber::new());
    (subscriber::set_default(subscriber), second)
}
