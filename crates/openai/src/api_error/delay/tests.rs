use std::time::Duration;

use serde_json::{Value, json};

use super::{asked, is_daily};

#[test]
fn a_wait_is_read_from_the_words() {
    for (message, millis) in [
        ("Rate limit reached. Please try again in 1.2s. Visit …", Some(1200)),
        ("Please try again in 20ms.", Some(20)),
        ("Please try again in 7m26.4s.", Some(446_400)),
        ("Please retry in 37.02s.", Some(37_020)),
        ("Please retry after 20 seconds.", Some(20_000)),
        ("Please wait 1 minute 5 seconds", Some(65_000)),
        ("Try again after 5", Some(5000)),
        ("Please try again in a moment.", None),
        ("Please retry in .", None),
        ("slow down", None),
        ("Try again in ü", None),
    ] {
        assert_eq!(asked(&Value::Null, message), millis.map(Duration::from_millis), "{message}");
    }
    let forever = format!("Retry in {}s", "9".repeat(400));
    assert_eq!(asked(&Value::Null, &forever), Some(Duration::MAX));
}

#[test]
fn a_wait_is_read_from_headers_that_are_passed_on() {
    let headers = |headers: Value| asked(&json!({"metadata": {"headers": headers}}), "");
    assert_eq!(headers(json!({"Retry-After": "3"})), Some(Duration::from_secs(3)));
    assert_eq!(headers(json!({"X-RateLimit-Reset": "1000"})), None, "it is over");
    assert!(headers(json!({"X-RateLimit-Reset": 9_999_999_999_999_u64})).is_some());
    assert_eq!(headers(json!({"X-RateLimit-Reset": "soon"})), None);
}

#[test]
fn the_quota_of_a_day_is_told_from_that_of_a_minute() {
    let quota = |id: &str| json!({"details": [{"violations": [{"quotaId": id}]}, {"retryDelay": "3s"}]});
    assert!(is_daily(&quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier")));
    assert!(!is_daily(&quota("GenerateRequestsPerMinutePerProjectPerModel-FreeTier")));
    assert!(!is_daily(&json!({"details": "PerDay"})));
}
