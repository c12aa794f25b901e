//! Waits that end.

use std::{
    future::{Future, poll_fn},
    panic::catch_unwind,
    pin::pin,
    task::Poll,
    time::Duration,
};

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

/// Waits until a deadline, or the cancellation of a token. The first poll comes before the timer is armed: most
/// waits are over by then, and a timer costs more than they do.
pub(crate) async fn until<F: Future>(
    deadline: Option<Instant>,
    cancellation: &CancellationToken,
    future: F,
) -> Result<F::Output, Ended> {
    let mut future = pin!(future);
    if let Poll::Ready(output) = futures::poll!(&mut future) {
        return Ok(output);
    }
    let mut cancelled = pin!(cancellation.cancelled());
    let mut timer = pin!(deadline.map(arm).transpose()?);
    poll_fn(|task| {
        if let Poll::Ready(output) = future.as_mut().poll(task) {
            return Poll::Ready(Ok(output));
        }
        if cancelled.as_mut().poll(task).is_ready() {
            return Poll::Ready(Err(Ended::Cancelled));
        }
        match timer.as_mut().as_pin_mut().map(|timer| timer.poll(task)) {
            Some(Poll::Ready(())) => Poll::Ready(Err(Ended::Elapsed)),
            _ => Poll::Pending,
        }
    })
    .await
}

/// Waits for at most this long.
pub(crate) async fn within<F: Future>(duration: Duration, future: F) -> Result<F::Output, Ended> {
    until(Instant::now().checked_add(duration), &CancellationToken::new(), future).await
}

/// Tokio panics where there is no runtime, or one without a timer.
fn arm(deadline: Instant) -> Result<Sleep, Ended> {
    if Handle::try_current().is_err() {
        return Err(Ended::NoTimer);
    }
    catch_unwind(|| sleep_until(deadline)).map_err(|_no_timer| Ended::NoTimer)
}
