use std::{future::pending, time::Duration};

use haft_core::model::{ModelError, TimeoutPhase};
use tokio::time::{Instant, advance};

use super::{RequestTimer, Timeouts};

/// The response head and the first byte of the body share one timeout. Each attempt restarts this
/// timeout.
#[tokio::test(start_paused = true)]
async fn first_byte_timeout_counts_from_the_attempt() {
    let limit = Duration::from_secs(8);
    let timer = RequestTimer::start(&Timeouts::default().with_first_byte(limit));
    advance(Duration::from_secs(60)).await;
    let attempt = timer.for_attempt();
    advance(Duration::from_secs(6)).await;
    let started = Instant::now();
    let error = attempt.run(TimeoutPhase::FirstByte, pending::<()>()).await.unwrap_err();
    let ModelError::TimedOut { phase: TimeoutPhase::FirstByte, after } = error else { panic!("{error:?}") };
    assert_eq!((after, started.elapsed()), (limit, Duration::from_secs(2)));
}

/// `Duration::MAX` disables a timeout, so adding it to the current time must not overflow.
#[tokio::test(start_paused = true)]
async fn maximum_duration_is_a_valid_timeout() {
    let longest = Timeouts::default().with_first_byte(Duration::MAX).with_total(Duration::MAX);
    assert!(RequestTimer::start(&longest).run(TimeoutPhase::FirstByte, async {}).await.is_ok());
}
