use std::time::Duration;

use super::{Attempt, Backoff};

/// The first restart is immediate. Later delays double up to 30 s, and a session of at least ten
/// seconds resets them.
#[test]
fn delays_double_until_a_long_session_resets_them() {
    let mut backoff = Backoff::default();
    let mut delay = |attempt, seconds| backoff.next_delay(attempt, Duration::from_secs(seconds)).as_millis();
    assert_eq!(delay(Attempt::Succeeded, 1), 0);
    assert_eq!(delay(Attempt::Succeeded, 1), 500);
    assert_eq!(delay(Attempt::Failed, 0), 1000);
    assert_eq!(delay(Attempt::Succeeded, 60), 0, "a session of 60 s resets the backoff");
    for _ in 0..40 {
        delay(Attempt::Failed, 0);
    }
    assert_eq!(delay(Attempt::Failed, 0), 30_000);
}
