use std::time::Duration;

use haft_core::{ModelError, TimeoutPhase};
use tokio::time::{Instant, timeout};

/// How long a request may take. Each wait that is over is its own error, [`ModelError::TimedOut`] with its
/// [`TimeoutPhase`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timeouts {
    /// Until there is a connection: 10 s.
    pub connect: Duration,
    /// From the request, connection included, until the reply begins: 5 min. A server that does not stream thinks first and answers then,
    /// one on a small machine reads a long conversation first.
    pub first_byte: Duration,
    /// Between two pieces of a reply: 2 min.
    pub idle: Duration,
    /// From the request to the end of the reply, with all attempts and the waits between them: 10 min.
    pub total: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(300),
            idle: Duration::from_secs(120),
            total: Duration::from_secs(600),
        }
    }
}

/// The time of one request, over all its attempts.
#[derive(Clone)]
pub(super) struct Clock {
    timeouts: Timeouts,
    started: Instant,
}

impl Clock {
    pub(super) fn start(timeouts: &Timeouts) -> Self {
        Self { timeouts: timeouts.clone(), started: Instant::now() }
    }

    /// Waits for something, at most for the time of its phase and of the whole request.
    pub(super) async fn wait<T>(
        &self,
        phase: TimeoutPhase,
        what: impl Future<Output = T>,
    ) -> Result<T, ModelError> {
        let limit = match phase {
            TimeoutPhase::Connect => self.timeouts.connect,
            TimeoutPhase::FirstByte => self.timeouts.first_byte,
            TimeoutPhase::Idle => self.timeouts.idle,
            TimeoutPhase::Total => self.timeouts.total,
        };
        let left = self.left();
        timeout(limit.min(left), what).await.map_err(|_elapsed| {
            if left < limit { self.over() } else { ModelError::TimedOut { phase, after: limit } }
        })
    }

    /// What is left for the whole request.
    pub(super) fn left(&self) -> Duration {
        self.timeouts.total.saturating_sub(self.started.elapsed())
    }

    pub(super) fn connect_timed_out(&self) -> ModelError {
        ModelError::TimedOut { phase: TimeoutPhase::Connect, after: self.timeouts.connect }
    }

    fn over(&self) -> ModelError {
        ModelError::TimedOut { phase: TimeoutPhase::Total, after: self.timeouts.total }
    }
}
