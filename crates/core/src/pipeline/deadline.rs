//! Waits that end.

use std::{
    future::{Future, poll_fn},
    panic::catch_unwind,
    pin::pin,
    time::Duration,
};

use futures::{FutureExt as _, future::select};
use tokio::{
    runtime::Handle,
    time::{Instant, Sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;

/// Why a wait ended without what was waited for.
pub(crate) enum Ended {
    /// The time is up.
    Elapsed,
    /// The token was cancelled.
    Cancelled,
    /// Nothing here can tell the time.
    NoTimer,
}

/// Waits until a deadline, or the cancellation of a token: then the output is what `otherwise` says.
///
/// The first poll comes before the timer is made: most waits are over by then, and a timer costs more than they do.
pub(crate) fn until<F: Future + Unpin>(
    deadline: Option<Instant>,
    cancellation: &CancellationToken,
    mut future: F,
    otherwise: impl Fn(Ended) -> F::Output,
) -> impl Future<Output = F::Output> {
    let mut end = None;
    poll_fn(move |task| {
        let polled = future.poll_unpin(task);
        if polled.is_ready() {
            return polled;
        }
        let end = end.get_or_insert_with(|| Box::pin(end_of_wait(deadline, cancellation)));
        end.as_mut().poll(task).map(&otherwise)
    })
}

async fn end_of_wait(deadline: Option<Instant>, cancellation: &CancellationToken) -> Ended {
    let cancelled = pin!(cancellation.cancelled().map(|()| Ended::Cancelled));
    match deadline.map(arm).transpose() {
        Ok(None) => cancelled.await,
        Ok(Some(timer)) => {
            let elapsed = pin!(timer.map(|()| Ended::Elapsed));
            select(cancelled, elapsed).await.factor_first().0
        }
        Err(no_timer) => no_timer,
    }
}

/// Waits for at most this long.
pub(crate) async fn within<F: Future + Unpin>(duration: Duration, future: F) -> Result<F::Output, Ended> {
    let never = CancellationToken::new();
    until(Instant::now().checked_add(duration), &never, future.map(Ok), Err).await
}

/// Tokio panics where there is no runtime, or one without a timer.
fn arm(deadline: Instant) -> Result<Sleep, Ended> {
    if Handle::try_current().is_err() {
        return Err(Ended::NoTimer);
    }
    catch_unwind(|| sleep_until(deadline)).map_err(|_no_timer| Ended::NoTimer)
}
