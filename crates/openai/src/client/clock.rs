#[cfg(test)]
mod tests;

use std::time::Duration;

use haft_core::model::{ModelError, TimeoutPhase};
use tokio::time::{Instant, timeout};

/// How long a request may take. Each wait that is over is its own error, [`ModelError::TimedOut`] with its
/// [`TimeoutPhase`].
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use haft_openai::Timeouts;
///
/// let patient = Timeouts::default().with_first_byte(Duration::from_secs(1800)).with_total(Duration::from_secs(3600));
/// assert_eq!(patient.idle, Timeouts::default().idle);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timeouts {
    /// Until there is a connection: 10 s.
    pub connect: Duration,
    /// From the request, connection included, until the first byte of the reply's body: 5 min. A server that does not
    /// stream thinks first and answers then, one on a small machine reads a long conversation first.
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

impl Timeouts {
    /// Sets how long it may take until there is a connection.
    #[must_use]
    pub fn with_connect(mut self, connect: Duration) -> Self {
        self.connect = connect;
        self
    }

    /// Sets how long it may take until the first byte of the reply's body.
    #[must_use]
    pub fn with_first_byte(mut self, first_byte: Duration) -> Self {
        self.first_byte = first_byte;
        self
    }

    /// Sets how long it may take between two pieces of a reply.
    #[must_use]
    pub fn with_idle(mut self, idle: Duration) -> Self {
        self.idle = idle;
        self
    }

    /// Sets how long a request may take in all.
    #[must_use]
    pub fn with_total(mut self, total: Duration) -> Self {
        self.total = total;
        self
    }
}

/// The time of one request, over all its attempts.
#[derive(Clone)]
pub(super) struct Clock {
    timeouts: Timeouts,
    started: Instant,
    /// When the attempt of now began.
    attempted: Instant,
}

impl Clock {
    pub(super) fn start(timeouts: &Timeouts) -> Self {
        let now = Instant::now();
        Self { timeouts: timeouts.clone(), started: now, attempted: now }
    }

    /// The same time for an attempt that begins now.
    pub(super) fn attempt(&self) -> Self {
        Self { attempted: Instant::now(), ..self.clone() }
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
        // The first byte is waited for in parts: the head comes first.
        let is_counting = phase == TimeoutPhase::FirstByte;
        let passed = if is_counting { self.attempted.elapsed() } else { Duration::ZERO };
        let (wait, left) = (limit.saturating_sub(passed), self.left());
        timeout(wait.min(left), what).await.map_err(|_elapsed| {
            if left < wait { self.over() } else { ModelError::TimedOut { phase, after: limit } }
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
