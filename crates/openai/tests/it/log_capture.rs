//! Capture of the `tracing` events of one test, while other tests run without a subscriber.

use tracing::{
    Dispatch, Subscriber,
    subscriber::{self, DefaultGuard, NoSubscriber},
};

/// Sets the subscriber of the current thread until the returned guard is dropped.
///
/// With a single dispatcher, `tracing` caches the interest in a callsite for all threads, and the
/// first thread may have no subscriber. With a second dispatcher, the interest of both is checked
/// each time.
pub(crate) fn capture(subscriber: impl Subscriber + Send + Sync) -> (DefaultGuard, Dispatch) {
    let second = Dispatch::new(NoSubscriber::new());
    (subscriber::set_default(subscriber), second)
}
