//! Extraction of the retry delay, and of Google's `details`, from an error body.

#[cfg(test)]
mod tests;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;

/// Returns the retry delay from Google's `details` in `error`, or else from the headers in
/// OpenRouter's `metadata`, or else from `message`. `None` if none of them contains a delay.
pub(super) fn retry_delay(error: &Value, message: &str) -> Option<Duration> {
    delay_in_details(error).or_else(|| delay_in_headers(error)).or_else(|| delay_in_message(message))
}

/// Returns `true` if `error` reports that Google's daily quota is exhausted. A retry within seconds
/// cannot succeed in this case.
pub(super) fn is_daily_quota(error: &Value) -> bool {
    let violations = details(error).filter_map(|detail| detail.get("violations")?.as_array()).flatten();
    let mut quotas = violations.filter_map(|violation| violation.get("quotaId")?.as_str());
    quotas.any(|quota| quota.contains("PerDay"))
}

/// Returns the reasons in Google's `details`, such as `API_KEY_INVALID`.
pub(super) fn reasons(error: &Value) -> impl Iterator<Item = &str> {
    details(error).filter_map(|detail| detail.get("reason")?.as_str())
}

fn details(error: &Value) -> impl Iterator<Item = &Value> {
    error.get("details").and_then(Value::as_array).into_iter().flatten()
}

fn delay_in_details(error: &Value) -> Option<Duration> {
    parse_duration(details(error).find_map(|detail| detail.get("retryDelay")?.as_str())?)
}

fn delay_in_headers(error: &Value) -> Option<Duration> {
    let headers = error.get("metadata")?.get("headers")?.as_object()?;
    let header = |name: &str| {
        let (_, value) = headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name))?;
        value.as_f64().or_else(|| value.as_str()?.trim().parse().ok())
    };
    if let Some(seconds) = header("retry-after") {
        return duration_from_secs(seconds);
    }
    // OpenRouter sends the reset time in milliseconds since the Unix epoch.
    let reset = UNIX_EPOCH.checked_add(duration_from_secs(header("x-ratelimit-reset")? / 1000.0)?)?;
    reset.duration_since(SystemTime::now()).ok()
}

fn delay_in_message(message: &str) -> Option<Duration> {
    const BEFORE: [&str; 5] =
        ["try again in ", "retry in ", "retry after ", "try again after ", "please wait "];
    let message = message.to_lowercase();
    BEFORE.iter().find_map(|before| parse_duration(message.split_once(before)?.1))
}

/// Parses a duration such as `37.024s`, `20ms`, `1m26.4s` or `20 seconds` at the beginning of
/// `text`. A number without a unit is in seconds. Returns `None` if there is no number.
fn parse_duration(text: &str) -> Option<Duration> {
    let (mut rest, mut seconds, mut count) = (text, 0.0, 0);
    loop {
        let (number, after) = split_prefix(rest.trim_start(), |it| it.is_ascii_digit() || it == '.');
        let Ok(number) = number.parse::<f64>() else { break };
        let (unit, after) = split_prefix(after.trim_start(), char::is_alphabetic);
        let unit = match unit {
            "ms" | "millisecond" | "milliseconds" => 0.001,
            "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
            "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
            "h" | "hour" | "hours" => 3600.0,
            "d" | "day" | "days" => 86400.0,
            _ if count == 0 => return duration_from_secs(number),
            _ => break,
        };
        (rest, seconds, count) = (after, seconds + number * unit, count + 1);
    }
    (count > 0).then(|| duration_from_secs(seconds)).flatten()
}

fn split_prefix(text: &str, is_part: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|letter| !is_part(letter)).unwrap_or(text.len()))
}

/// Converts `seconds` to a [`Duration`] of at most [`Duration::MAX`]. Returns `None` for negative
/// numbers and NaN.
fn duration_from_secs(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok().or((seconds > 0.0).then_some(Duration::MAX))
}
