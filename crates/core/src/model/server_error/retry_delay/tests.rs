use std::time::Duration;

use serde_json::{Value, json};

use super::{is_daily_quota, retry_delay};

#[test]
fn delay_is_parsed_from_the_message() {
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
        assert_eq!(retry_delay(&Value::Null, message), millis.map(Duration::from_millis), "{message}");
    }
    let forever = format!("Retry in {}s", "9".repeat(400));
    assert_eq!(retry_delay(&Value::Null, &forever), Some(Duration::MAX));
}

#[test]
fn delay_is_parsed_from_forwarded_headers() {
    let headers = |headers: Value| retry_delay(&json!({"metadata": {"headers": headers}}), "");
    assert_eq!(headers(json!({"Retry-After": "3"})), Some(Duration::from_secs(3)));
    assert_eq!(headers(json!({"X-RateLimit-Reset": "1000"})), None, "in the past");
    assert!(headers(json!({"X-RateLimit-Reset": 9_999_999_999_999_u64})).is_some());
    assert_eq!(headers(json!({"X-RateLimit-Reset": "soon"})), None);
}

#[test]
fn daily_quota_differs_from_quota_per_minute() {
    let quota = |id: &str| json!({"details": [{"violations": [{"quotaId": id}]}, {"retryDelay": "3s"}]});
    assert!(is_daily_quota(&quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier")));
    assert!(!is_daily_quota(&quota("GenerateRequestsPerMinutePerProjectPerModel-FreeTier")));
    assert!(!is_daily_quota(&json!({"details": "PerDay"})));
}
