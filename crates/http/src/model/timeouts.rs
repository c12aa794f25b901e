#[cfg(test)]
mod tests;

use std::time::Duration;

use haft_core::model::{ModelError, TimeoutPhase};
use tokio::time::{Instant, timeout};

/// The timeouts of a model request. If a timeout expires, the request fails with
/// [`ModelError::TimedOut`], which contains the [`TimeoutPhase`].
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use haft_http::model::Timeouts;
///
/// let patient = Timeouts::default().with_first_byte(Duration::from_secs(1800)).with_total(Duration::from_secs(3600));
/// assert_eq!(patient.idle, Timeouts::default().idle);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timeouts {
    /// The maximum time to establish the connection. Default: 10 s.
    pub connect: Duration,
    /// The maximum time from the start of an HTTP request, including the connection setup, to the
    /// first byte of the body. Default: 5 min. The default is long, because a small machine needs
    /// minutes to process a long prompt. Without streaming, a server also sends nothing until it
    /// has generated the whole reply.
    pub first_byte: Duration,
    /// The maximum time between two chunks of a reply. Default: 2 min.
    pub idle: Duration,
    /// The maximum time from the start of a model request to the end of its reply, including all
    /// retries. Default: 10 min.
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

impl Timeouts {
    /// Sets the timeout for establishing the connection.
    #[must_use]
    pub fn with_connect(mut self, connect: Duration) -> Self {
        self.connect = connect;
        self
    }

    /// Sets the timeout for the first byte of the body.
    #[must_use]
    pub fn with_first_byte(mut self, first_byte: Duration) -> Self {
        self.first_byte = first_byte;
        self
    }

    /// Sets the timeout between two chunks of a reply.
    #[must_use]
    pub fn with_idle(mut self, idle: Duration) -> Self {
        self.idle = idle;
        self
    }

    /// Sets the timeout for the whole request, including all retries.
    #[must_use]
    pub fn with_total(mut self, total: Duration) -> Self {
        self.total = total;
        self
    }
}

/// The deadlines of a model request, computed from its [`Timeouts`].
#[derive(Clone, Debug)]
pub struct RequestTimer {
    timeouts: Timeouts,
    started: Instant,
    /// The start of the current HTTP request. The first-byte timeout is measured from this time.
    attempt_started: Instant,
}

impl RequestTimer {
    /// Starts the timer of a model request and of its first HTTP request.
    pub fn start(timeouts: &Timeouts) -> Self {
        let now = Instant::now();
        Self { timeouts: timeouts.clone(), started: now, attempt_started: now }
    }

    /// Returns a copy of this timer for an HTTP request that starts now.
    #[must_use]
    pub fn for_attempt(&self) -> Self {
        Self { attempt_started: Instant::now(), ..self.clone() }
    }

    /// Awaits `future`.
    ///
    /// # Errors
    ///
    /// Fails with [`ModelError::TimedOut`] if the timeout of `phase` or the timeout of the whole
    /// request expires first.
    pub async fn run<T>(
        &self,
        phase: TimeoutPhase,
        future: impl Future<Output = T>,
    ) -> Result<T, ModelError> {
        let limit = match phase {
            TimeoutPhase::Connect => self.timeouts.connect,
            TimeoutPhase::FirstByte => self.timeouts.first_byte,
            TimeoutPhase::Idle => self.timeouts.idle,
            _ => self.timeouts.total,
        };
        // The response head and the first byte of the body share one timeout, which begins with the
        // HTTP request. The time that has passed since then is subtracted.
        let is_counting = phase == TimeoutPhase::FirstByte;
        let passed = if is_counting { self.attempt_started.elapsed() } else { Duration::ZERO };
        let (wait, left) = (limit.saturating_sub(passed), self.remaining());
        timeout(wait.min(left), future).await.map_err(|_elapsed| {
            if left < wait { self.total_timed_out() } else { ModelError::TimedOut { phase, after: limit } }
        })
    }

    /// Returns the remaining time until the timeout of the whole request expires, or zero if the
    /// timeout has expired.
    pub fn remaining(&self) -> Duration {
        self.timeouts.total.saturating_sub(self.started.elapsed())
    }

    /// Returns the error for a connection that was not established in time.
    pub fn connect_timed_out(&self) -> ModelError {
        ModelError::TimedOut { phase: TimeoutPhase::Connect, after: self.timeouts.connect }
    }

    fn total_timed_out(&self) -> ModelError {
        ModelError::TimedOut { phase: TimeoutPhase::Total, after: self.timeouts.total }
    }
}
