//! Capture of the `tracing` events of one test, while other tests run without a subscriber.

use tracing::{
    Dispatch, Subscriber,
    subscriber::{self, DefaultGuard, NoSubscriber},
};

/// Sets `subscriber` for the current thread until the returned guard is dropped. Keep the returned
/// dispatcher as long as the guard.
///
/// With a single dispatcher, `tracing` caches the interest in each callsite for all threads, so a
/// thread without a subscriber could disable the callsite for this test. The returned dispatcher is
/// a second one, so `tracing` checks the subscriber of the current thread each time.
pub(crate) fn set_subscriber(subscriber: impl Subscriber + Send + Sync) -> (DefaultGuard, Dispatch) {
    let second = Dispatch::new(NoSubscriber::new());
    (subscriber::set_default(subscriber), second)
}
