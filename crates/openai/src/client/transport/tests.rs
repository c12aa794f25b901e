use std::time::{Duration, SystemTime};

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use super::retry_after;

fn asked(name: &'static str, value: &str) -> Option<Duration> {
    let header = (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
    retry_after(&HeaderMap::from_iter([header]))
}

#[test]
fn a_wait_is_asked_for_in_three_ways() {
    assert_eq!(asked("retry-after", "2"), Some(Duration::from_secs(2)));
    assert_eq!(asked("retry-after", "0.5"), Some(Duration::from_millis(500)));
    assert_eq!(asked("retry-after-ms", "20"), Some(Duration::from_millis(20)));
    // More than a duration holds is not none.
    assert_eq!(asked("retry-after", "1e300"), Some(Duration::MAX));
    let date = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(100));
    let wait = asked("retry-after", &date).unwrap();
    assert!(wait > Duration::from_secs(90) && wait <= Duration::from_secs(100), "{wait:?}");
}

#[test]
fn what_is_no_wait_is_none() {
    for value in ["", "soon", "-1", "NaN", "Wed, 21 Oct 2015 07:28:00 GMT"] {
        assert_eq!(asked("retry-after", value), None, "{value}");
    }
}
