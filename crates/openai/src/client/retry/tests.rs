use std::{cell::Cell, time::Duration};

use haft_core::{
    message::AssistantMessage,
    model::{ModelError, TimeoutPhase},
};
use tokio::time::Instant;

use super::{LONGEST_WAIT, RetryPolicy};
use crate::{Timeouts, client::clock::Clock};

fn busy(retry_after: Option<Duration>) -> ModelError {
    ModelError::RateLimited { message: "slow down".into(), retry_after, permanent: false }
}

/// Fails so often before it succeeds, and tells how many attempts there were and how long it took.
async fn run(policy: &RetryPolicy, failures: u32, error: impl Fn() -> ModelError) -> (bool, u32, Duration) {
    let (attempts, started) = (Cell::new(0), Instant::now());
    let attempt = || {
        attempts.set(attempts.get() + 1);
        let reply = if attempts.get() > failures { Ok(()) } else { Err(error()) };
        async { reply }
    };
    let reply = policy.run(&Clock::start(&Timeouts::default()), attempt).await;
    (reply.is_ok(), attempts.get(), started.elapsed())
}

/// FAULTS M1: `Retry-After: 2`, twice.
#[tokio::test(start_paused = true)]
async fn the_wait_is_never_shorter_than_the_server_asks_for() {
    let asked = Duration::from_secs(2);
    let (succeeded, attempts, time) = run(&RetryPolicy::default(), 2, || busy(Some(asked))).await;
    assert!(succeeded);
    assert_eq!(attempts, 3);
    assert!(time >= 2 * asked && time <= 3 * asked, "{time:?}");
}

#[tokio::test(start_paused = true)]
async fn waits_double_up_to_a_bound_and_differ() {
    let policy = RetryPolicy::default();
    let waits: Vec<_> = (0..10).map(|retry| policy.wait_before(retry, None)).collect();
    assert!(waits[0] >= Duration::from_millis(500) && waits[0] <= Duration::from_millis(750));
    assert!(waits[2] >= Duration::from_millis(2000) && waits[2] <= Duration::from_millis(3000));
    assert!(waits.iter().all(|wait| *wait <= LONGEST_WAIT.mul_f64(1.5)));
    assert_ne!(waits[8], waits[9]);
}

#[tokio::test(start_paused = true)]
async fn attempts_are_bounded() {
    let policy = RetryPolicy { retries: 2, ..RetryPolicy::default() };
    let (succeeded, attempts, _) = run(&policy, 9, || busy(None)).await;
    assert!(!succeeded);
    assert_eq!(attempts, 3);
}

/// FAULTS M1: within the deadline.
#[tokio::test(start_paused = true)]
async fn a_wait_beyond_the_deadline_is_not_begun() {
    let (succeeded, attempts, time) =
        run(&RetryPolicy::default(), 1, || busy(Some(Duration::from_secs(3600)))).await;
    assert!(!succeeded);
    assert_eq!((attempts, time), (1, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn an_overloaded_server_is_given_the_time_it_asks_for() {
    let asked = Duration::from_secs(30);
    let error =
        || ModelError::Server { status: Some(503), body: "overloaded".into(), retry_after: Some(asked) };
    let (succeeded, attempts, time) = run(&RetryPolicy::default(), 1, error).await;
    assert!(succeeded);
    assert_eq!(attempts, 2);
    assert!(time >= asked, "{time:?}");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_pass_is_not_tried_again() {
    let seen = || ModelError::Truncated { reason: "reset".into(), partial: Box::new("Once".into()) };
    let unseen =
        || ModelError::Truncated { reason: "reset".into(), partial: Box::<AssistantMessage>::default() };
    let waited = || ModelError::TimedOut { phase: TimeoutPhase::Idle, after: Duration::ZERO };
    let policy = RetryPolicy::default();
    assert_eq!(run(&policy, 1, seen).await.1, 1);
    assert_eq!(run(&policy, 1, waited).await.1, 1);
    assert_eq!(run(&policy, 1, || ModelError::Unauthorized("no".into())).await.1, 1);
    assert_eq!(run(&policy, 1, unseen).await.1, 2);
}
