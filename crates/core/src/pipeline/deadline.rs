//! Deadlines and timeouts for futures.

use std::{future::Future, panic::catch_unwind, pin::pin, time::Duration};

use futures::{
    FutureExt as _,
    future::{Either, select},
};
use tokio::{
    runtime::Handle,
    time::{Instant, Sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;

/// The event that ended the wait for a future before the future completed.
#[derive(Debug)]
pub(crate) enum WaitError {
    /// The deadline passed.
    Elapsed,
    /// The cancellation token was cancelled.
    Cancelled,
    /// The timer could not be created: there is no tokio runtime, or its timer is disabled.
    NoTimer,
}

/// Runs `future` until it completes. Fails if `deadline` passes or `cancellation` is cancelled
/// first.
///
/// The timer is created only after the first poll of `future`, so a future that completes in this
/// poll needs no tokio runtime.
pub(crate) async fn timeout_at<F: Future>(
    deadline: Option<Instant>,
    cancellation: &CancellationToken,
    future: F,
) -> Result<F::Output, WaitError> {
    let interrupt = pin!(wait_for_interrupt(deadline, cancellation));
    match select(pin!(future), interrupt).await {
        Either::Left((output, _)) => Ok(output),
        Either::Right((interrupt, _)) => Err(interrupt),
    }
}

/// Waits until `deadline` passes or `cancellation` is cancelled, and returns the event that came
/// first. Returns [`WaitError::NoTimer`] if there is a deadline, but no timer can be created for
/// it.
async fn wait_for_interrupt(deadline: Option<Instant>, cancellation: &CancellationToken) -> WaitError {
    let cancelled = pin!(cancellation.cancelled().map(|()| WaitError::Cancelled));
    match deadline.map(start_timer).transpose() {
        Ok(None) => cancelled.await,
        Ok(Some(timer)) => {
            let elapsed = pin!(timer.map(|()| WaitError::Elapsed));
            select(cancelled, elapsed).await.factor_first().0
        }
        Err(no_timer) => no_timer,
    }
}

/// Runs `future` until it completes. Fails with [`WaitError::Elapsed`] if `duration` passes first,
/// and with [`WaitError::NoTimer`] if the first poll is pending and no timer can be created.
pub(crate) async fn timeout<F: Future>(duration: Duration, future: F) -> Result<F::Output, WaitError> {
    timeout_at(Instant::now().checked_add(duration), &CancellationToken::new(), future).await
}

/// Creates a timer that expires at `deadline`. Fails with [`WaitError::NoTimer`] where
/// `sleep_until` would panic: without a tokio runtime, and if the timer of the runtime is disabled.
fn start_timer(deadline: Instant) -> Result<Sleep, WaitError> {
    if Handle::try_current().is_err() {
        return Err(WaitError::NoTimer);
    }
    catch_unwind(|| sleep_until(deadline)).map_err(|_no_timer| WaitError::NoTimer)
}
