//! Deadlines and timeouts for futures.

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

/// Runs `future` until it completes, `deadline` passes, or `cancellation` is cancelled. If `future`
/// does not complete, the output is the return value of `on_error`, which receives the event that
/// ended the wait.
///
/// The timer is created only after the first poll of `future`, because most futures complete in
/// this poll, and a timer costs more than the poll.
pub(crate) fn timeout_at<F: Future + Unpin>(
    deadline: Option<Instant>,
    cancellation: &CancellationToken,
    mut future: F,
    on_error: impl Fn(WaitError) -> F::Output,
) -> impl Future<Output = F::Output> {
    let mut interrupt = None;
    poll_fn(move |task| {
        let output = future.poll_unpin(task);
        if output.is_ready() {
            return output;
        }
        let interrupt = interrupt.get_or_insert_with(|| Box::pin(wait_for_interrupt(deadline, cancellation)));
        interrupt.as_mut().poll(task).map(&on_error)
    })
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
pub(crate) async fn timeout<F: Future + Unpin>(
    duration: Duration,
    future: F,
) -> Result<F::Output, WaitError> {
    let never = CancellationToken::new();
    timeout_at(Instant::now().checked_add(duration), &never, future.map(Ok), Err).await
}

/// Creates a timer that expires at `deadline`. Fails with [`WaitError::NoTimer`] where
/// `sleep_until` would panic: without a tokio runtime, and if the timer of the runtime is disabled.
fn start_timer(deadline: Instant) -> Result<Sleep, WaitError> {
    if Handle::try_current().is_err() {
        return Err(WaitError::NoTimer);
    }
    catch_unwind(|| sleep_until(deadline)).map_err(|_no_timer| WaitError::NoTimer)
}
