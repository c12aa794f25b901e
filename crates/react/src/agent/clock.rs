//! The time of a run.

use std::{future::Future, panic::catch_unwind, time::Duration};

use haft_core::{Timestamp, agent::AgentErrorKind};
use tokio::time::{Instant, sleep};

/// A monotonic clock.
pub(super) struct Clock {
    began_at: Timestamp,
    began: Instant,
}

impl Clock {
    pub(super) fn new() -> Self {
        Self { began_at: Timestamp::now(), began: Instant::now() }
    }

    pub(super) fn now(&self) -> Timestamp {
        let passed = i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX);
        Timestamp::from_unix_millis(self.began_at.unix_millis().saturating_add(passed))
    }
}

/// Awaits `work` for at most `left`. Returns `None` if the time is up.
pub(super) async fn within<F: Future>(
    left: Option<Duration>,
    work: F,
) -> Result<Option<F::Output>, AgentErrorKind> {
    let Some(left) = left else { return Ok(Some(work.await)) };
    // Tokio panics if its timer is not enabled.
    let timer = catch_unwind(|| sleep(left)).map_err(|_no_timer| AgentErrorKind::NoRuntime)?;
    tokio::select! {
        biased;
        done = work => Ok(Some(done)),
        () = timer => Ok(None),
    }
}
