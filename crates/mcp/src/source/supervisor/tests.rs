use std::time::Duration;

use super::{Backoff, Lived};

/// BEHAVIOUR F50: back at once the first time, less and less often after that.
#[test]
fn attempts_become_rare() {
    let mut backoff = Backoff::default();
    let mut wait = |lived, age| backoff.after(lived, Duration::from_secs(age)).as_millis();
    assert_eq!(wait(Lived::Yes, 1), 0);
    assert_eq!(wait(Lived::Yes, 1), 500);
    assert_eq!(wait(Lived::No, 0), 1000);
    assert_eq!(wait(Lived::Yes, 60), 0, "it had settled");
    for _ in 0..40 {
        wait(Lived::No, 0);
    }
    assert_eq!(wait(Lived::No, 0), 30_000);
}
