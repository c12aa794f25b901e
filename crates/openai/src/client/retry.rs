#[cfg(test)]
mod tests;

use std::time::Duration;

use haft_core::model::ModelError;

use super::clock::Clock;

/// How often a request is tried again, and after which wait.
#[derive(Clone, Debug)]
pub(super) struct RetryPolicy {
    pub(super) retries: u32,
    /// The wait before the first retry; it doubles with each.
    pub(super) wait: Duration,
}

/// The longest wait that the server did not ask for.
const LONGEST_WAIT: Duration = Duration::from_secs(20);

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { retries: 3, wait: Duration::from_millis(500) }
    }
}

impl RetryPolicy {
    /// Tries until there is a reply, an error that will not pass, or no time.
    pub(super) async fn run<T, F>(
        &self,
        clock: &Clock,
        mut attempt: impl FnMut() -> F,
    ) -> Result<T, ModelError>
    where
        F: Future<Output = Result<T, ModelError>>,
    {
        let mut retry = 0;
        loop {
            let error = match attempt().await {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            let wait = self.wait_before(retry, error.retry_after());
            if retry == self.retries || !may_pass(&error) || wait >= clock.left() {
                return Err(error);
            }
            retry += 1;
            tracing::warn!(retry, ?wait, error = %error, "the model's server failed; trying again");
            tokio::time::sleep(wait).await;
        }
    }

    /// A wait that doubles with each retry, or the longer one that the server asks for, and up to half as much again,
    /// so that those who failed together do not come back together.
    fn wait_before(&self, retry: u32, asked: Option<Duration>) -> Duration {
        let wait = self.wait.saturating_mul(2_u32.saturating_pow(retry)).min(LONGEST_WAIT);
        let seconds = wait.max(asked.unwrap_or_default()).as_secs_f64() * (1.0 + fastrand::f64() / 2.0);
        // A server may ask for more than a duration can hold.
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }
}

/// Whether another attempt can help. A reply that was cut is asked for again only if nothing of it came, and after a
/// wait that was too long there is nobody left to wait.
fn may_pass(error: &ModelError) -> bool {
    match error {
        ModelError::Truncated { partial, .. } => partial.is_empty(),
        ModelError::TimedOut { .. } => false,
        other => other.is_transient(),
    }
}
