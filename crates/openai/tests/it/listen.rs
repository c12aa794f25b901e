//! Hearing what is told to `tracing`, beside other tests that do not.

use tracing::{
    Dispatch, Subscriber,
    subscriber::{self, DefaultGuard, NoSubscriber},
};

/// Lets this thread tell the subscriber, until what it returns is dropped.
///
/// While there is one subscriber, a place in the code asks that of the thread which comes there first, and keeps the answer: with
/// two it asks both, whichever test comes first.
pub(crate) fn listen(subscriber: impl Subscriber + Send + Sync) -> (DefaultGuard, Dispatch) {
    let second = Dispatch::new(NoSubscriber::new());
    (subscriber::set_default(subscriber), second)
}
