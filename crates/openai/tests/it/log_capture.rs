//! Capture of `tracing` events in one test, beside concurrent tests without a subscriber.

use tracing::{
    Dispatch, Subscriber,
    subscriber::{self, DefaultGuard, NoSubscriber},
};

/// Sets the subscriber of this thread until the result is dropped.
///
/// With a single dispatcher, `tracing` caches the interest of a callsite from the first thread,
/// possibly one without a subscriber. With a second dispatcher it always queries both.
pub(crate) fn capture(subscriber: impl Subscriber + Send + Sync) -> (DefaultGuard, Dispatch) {
    let second = Dispatch::new(NoSubscriber::new());
    (subscriber::set_default(subscriber), second)
}
