//! A monotonic clock for the driver of a run, and a time limit for futures.

use std::{future::Future, panic::catch_unwind, time::Duration};

use haft_core::{Timestamp, agent::AgentErrorKind};
use tokio::time::{Instant, sleep};

/// A monotonic clock that starts at the current system time. Later changes of the system time do
/// not affect it.
pub(super) struct Clock {
    start_time: Timestamp,
    start: Instant,
}

impl Clock {
    pub(super) fn new() -> Self {
        Self { start_time: Timestamp::now(), start: Instant::now() }
    }

    pub(super) fn now(&self) -> Timestamp {
        let elapsed = i64::try_from(self.start.elapsed().as_millis()).unwrap_or(i64::MAX);
        Timestamp::from_unix_millis(self.start_time.unix_millis().saturating_add(elapsed))
    }
}

/// Awaits `work` with the timeout `left`, or without a timeout if `left` is `None`. Returns `None`
/// after a timeout. Fails if the runtime has no timer.
pub(super) async fn with_time_limit<F: Future>(
    left: Option<Duration>,
    work: F,
) -> Result<Option<F::Output>, AgentErrorKind> {
    let Some(left) = left else { return Ok(Some(work.await)) };
    // Tokio panics if the runtime has no timer.
    let timer = catch_unwind(|| sleep(left)).map_err(|_no_timer| AgentErrorKind::NoRuntime)?;
    tokio::select! {
        biased;
        output = work => Ok(Some(output)),
        () = timer => Ok(None),
    }
}
