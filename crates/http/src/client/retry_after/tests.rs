use std::time::{Duration, SystemTime};

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use super::retry_after;

fn delay(name: &'static str, value: &str) -> Option<Duration> {
    let header = (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
    retry_after(&HeaderMap::from_iter([header]))
}

#[test]
fn retry_delay_is_read_as_seconds_milliseconds_or_date() {
    assert_eq!(delay("retry-after", "2"), Some(Duration::from_secs(2)));
    assert_eq!(delay("retry-after", "0.5"), Some(Duration::from_millis(500)));
    assert_eq!(delay("retry-after-ms", "20"), Some(Duration::from_millis(20)));
    assert_eq!(delay("retry-after-ms", "20.5"), Some(Duration::from_micros(20_500)));
    assert_eq!(delay("retry-after-ms", "-1"), None);
    // Values above the range of `Duration` become `Duration::MAX`.
    assert_eq!(delay("retry-after", "1e300"), Some(Duration::MAX));
    let date = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(100));
    let wait = delay("retry-after", &date).unwrap();
    assert!(wait > Duration::from_secs(90) && wait <= Duration::from_secs(100), "{wait:?}");
}

#[test]
fn invalid_retry_delay_is_ignored() {
    for value in ["", "soon", "-1", "NaN", "Wed, 21 Oct 2015 07:28:00 GMT"] {
        assert_eq!(delay("retry-after", value), None, "{value}");
    }
}
