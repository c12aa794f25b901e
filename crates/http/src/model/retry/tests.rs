use std::{cell::Cell, time::Duration};

use backon::BackoffBuilder as _;
use haft_core::{
    message::AssistantMessage,
    model::{ModelError, TimeoutPhase},
};
use tokio::time::Instant;

use super::{MAX_WAIT, RetryPolicy, with_jitter};
use crate::model::{RequestTimer, Timeouts};

fn busy(retry_after: Option<Duration>) -> ModelError {
    ModelError::RateLimited { message: "slow down".into(), retry_after, permanent: false }
}

/// Runs an attempt that fails `failures` times with `error`. Returns a flag that is `true` if the
/// last attempt succeeded, the number of attempts, and the elapsed time.
async fn run(policy: &RetryPolicy, failures: u32, error: impl Fn() -> ModelError) -> (bool, u32, Duration) {
    let (attempts, started) = (Cell::new(0), Instant::now());
    let attempt = || {
        attempts.set(attempts.get() + 1);
        let reply = if attempts.get() > failures { Ok(()) } else { Err(error()) };
        async { reply }
    };
    let reply = policy.run(&RequestTimer::start(&Timeouts::default()), attempt).await;
    (reply.is_ok(), attempts.get(), started.elapsed())
}

/// After two responses with `Retry-After: 2`, the total wait is at least 4 s.
#[tokio::test(start_paused = true)]
async fn wait_is_at_least_retry_after() {
    let retry_after = Duration::from_secs(2);
    let (succeeded, attempts, time) = run(&RetryPolicy::default(), 2, || busy(Some(retry_after))).await;
    assert!(succeeded);
    assert_eq!(attempts, 3);
    assert!(time >= 2 * retry_after && time <= 3 * retry_after, "{time:?}");
}

#[test]
fn waits_double_up_to_a_bound() {
    let policy = RetryPolicy { max_retries: 10, ..RetryPolicy::default() };
    let waits: Vec<_> = policy.backoff().build().map(|wait| wait.as_millis()).collect();
    assert_eq!(waits, [500, 1000, 2000, 4000, 8000, 16_000, 20_000, 20_000, 20_000, 20_000]);
    let policy = RetryPolicy { first_wait: Duration::from_secs(60), ..policy };
    assert_eq!(policy.backoff().build().next(), Some(MAX_WAIT));
}

#[test]
fn jitter_adds_up_to_a_half() {
    let waits: Vec<_> = (0..100).map(|_| with_jitter(MAX_WAIT)).collect();
    assert!(waits.iter().all(|wait| *wait >= MAX_WAIT && *wait <= MAX_WAIT.mul_f64(1.5)));
    assert_ne!(waits[0], waits[1]);
    assert_eq!(with_jitter(Duration::MAX), Duration::MAX);
}

#[tokio::test(start_paused = true)]
async fn attempts_are_bounded() {
    let policy = RetryPolicy { max_retries: 2, ..RetryPolicy::default() };
    let (succeeded, attempts, _) = run(&policy, 9, || busy(None)).await;
    assert!(!succeeded);
    assert_eq!(attempts, 3);
}

/// If `Retry-After` exceeds the remaining time, the error is returned at once.
#[tokio::test(start_paused = true)]
async fn wait_beyond_the_deadline_fails_at_once() {
    let (succeeded, attempts, time) =
        run(&RetryPolicy::default(), 1, || busy(Some(Duration::from_secs(3600)))).await;
    assert!(!succeeded);
    assert_eq!((attempts, time), (1, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn retry_after_of_503_is_respected() {
    let retry_after = Duration::from_secs(30);
    let error = || ModelError::Server {
        status: Some(503),
        body: "overloaded".into(),
        retry_after: Some(retry_after),
    };
    let (succeeded, attempts, time) = run(&RetryPolicy::default(), 1, error).await;
    assert!(succeeded);
    assert_eq!(attempts, 2);
    assert!(time >= retry_after, "{time:?}");
}

#[tokio::test(start_paused = true)]
async fn permanent_errors_are_not_retried() {
    let partial = || ModelError::Truncated { reason: "reset".into(), partial: Box::new("Once".into()) };
    let empty =
        || ModelError::Truncated { reason: "reset".into(), partial: Box::<AssistantMessage>::default() };
    let timed_out = || ModelError::TimedOut { phase: TimeoutPhase::Idle, after: Duration::ZERO };
    let policy = RetryPolicy::default();
    assert_eq!(run(&policy, 1, partial).await.1, 1);
    assert_eq!(run(&policy, 1, timed_out).await.1, 1);
    assert_eq!(run(&policy, 1, || ModelError::Unauthorized("no".into())).await.1, 1);
    assert_eq!(run(&policy, 1, empty).await.1, 2);
}
