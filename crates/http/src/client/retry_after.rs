use std::time::{Duration, SystemTime};

use reqwest::header::{HeaderMap, RETRY_AFTER};

/// Returns the delay before a retry in `headers`: that of OpenAI's `retry-after-ms`, or else of
/// `Retry-After` in seconds or as a date (RFC 9110, section 10.2.3). `None` if there is no valid
/// delay, or if the date is past. A delay above the range of `Duration` is [`Duration::MAX`].
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use haft_http::client::retry_after;
/// use reqwest::header::{HeaderMap, HeaderValue, RETRY_AFTER};
///
/// let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static("2.5"))]);
/// assert_eq!(retry_after(&headers), Some(Duration::from_millis(2500)));
/// ```
pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name| headers.get(name)?.to_str().ok().map(str::trim);
    let millis = text("retry-after-ms").and_then(|text| text.parse::<f64>().ok());
    if let Some(delay) = millis.and_then(|millis| Duration::try_from_secs_f64(millis / 1000.0).ok()) {
        return Some(delay);
    }
    let text = text(RETRY_AFTER.as_str())?;
    match text.parse() {
        // A delay can be too long for a `Duration`.
        Ok(seconds) => Duration::try_from_secs_f64(seconds).ok().or((seconds > 0.0).then_some(Duration::MAX)),
        Err(_) => httpdate::parse_http_date(text).ok()?.duration_since(SystemTime::now()).ok(),
    }
}

#[cfg(test)]
mod tests;
