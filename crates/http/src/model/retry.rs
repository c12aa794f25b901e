#[cfg(test)]
mod tests;

use std::time::Duration;

use backon::{ExponentialBuilder, Retryable as _};
use haft_core::model::ModelError;

use super::timeouts::RequestTimer;

/// The retries of a model request: exponential backoff with jitter of up to 50 %, and at least the
/// server's `Retry-After`.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use haft_core::model::ModelError;
/// use haft_http::model::{RequestTimer, RetryPolicy, Timeouts};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), ModelError> {
/// let policy = RetryPolicy::default();
/// let timer = RequestTimer::start(&Timeouts::default());
/// let mut replies = vec![Ok("hello"), Err(ModelError::EmptyResponse)];
/// let reply = policy.run(&timer, || {
///     let reply = replies.pop().unwrap_or(Err(ModelError::EmptyResponse));
///     async { reply }
/// });
/// assert_eq!(reply.await?, "hello");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RetryPolicy {
    /// The maximum number of retries. Default: 3.
    pub max_retries: u32,
    /// The wait before the first retry. It doubles with each further retry, up to 20 seconds.
    /// Default: 500 ms.
    pub first_wait: Duration,
}

/// The maximum wait between two attempts, before jitter is added. A longer `Retry-After` overrides
/// this maximum.
const MAX_WAIT: Duration = Duration::from_secs(20);

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { max_retries: 3, first_wait: Duration::from_millis(500) }
    }
}

impl RetryPolicy {
    /// Runs `attempt` and repeats it until it succeeds or fails permanently, or until the retries
    /// or the time of `timer` are used up. Timeouts, and truncated replies with content, are not
    /// repeated.
    ///
    /// # Errors
    ///
    /// Returns the error of the last attempt.
    pub async fn run<T, F>(&self, timer: &RequestTimer, attempt: impl FnMut() -> F) -> Result<T, ModelError>
    where
        F: Future<Output = Result<T, ModelError>>,
    {
        let mut retry = 0_u32;
        attempt
            .retry(self.backoff())
            .when(is_retryable)
            .adjust(|error, wait| {
                let wait = wait.map(|wait| with_jitter(wait.max(error.retry_after().unwrap_or_default())));
                wait.filter(|wait| *wait < timer.remaining())
            })
            .notify(move |error, wait| {
                retry += 1;
                tracing::warn!(retry, ?wait, %error, "retrying after an error of the model's server");
            })
            .await
    }

    fn backoff(&self) -> ExponentialBuilder {
        let retries = usize::try_from(self.max_retries).unwrap_or(usize::MAX);
        ExponentialBuilder::new()
            .with_min_delay(self.first_wait.min(MAX_WAIT))
            .with_max_delay(MAX_WAIT)
            .with_max_times(retries)
    }
}

/// Returns `wait` plus a random part of up to 50 %, so that clients do not all retry at the same
/// time. Jitter is also added to a wait from `Retry-After`.
fn with_jitter(wait: Duration) -> Duration {
    // The multiplication can overflow, because `Retry-After` may be close to the maximum duration.
    Duration::try_from_secs_f64(wait.as_secs_f64() * (1.0 + fastrand::f64() / 2.0)).unwrap_or(Duration::MAX)
}

/// Returns `true` if another attempt may succeed after `error`.
///
/// A truncated reply is retried only if none of its content was received. A timeout is never
/// retried.
fn is_retryable(error: &ModelError) -> bool {
    match error {
        ModelError::Truncated { partial, .. } => partial.is_empty(),
        ModelError::TimedOut { .. } => false,
        other => other.is_transient(),
    }
}
