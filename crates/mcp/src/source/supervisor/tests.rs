use std::time::Duration;

use super::{Backoff, Lived};

/// Behaviour F50: the first restart is immediate, later ones wait longer and longer.
#[test]
fn waits_grow_until_the_server_has_settled() {
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
