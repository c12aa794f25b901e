//! Numbers that `serde_json` and `f64` cannot hold exactly.

use serde_json::Value;

/// The maximum number of significant digits of a number with a fraction or an exponent. 17 digits
/// identify every `f64`.
const MAX_DIGITS: usize = 17;
/// 2^63. `serde_json` keeps an integer below as it is, and a positive one below 2^64.
const BEYOND_64_BITS: f64 = 9_223_372_036_854_775_808.0;

/// Returns the first number in the JSON text `json` that would be rounded: an integer beyond 64 bits
/// that is no `f64`, more than 17 significant digits, or a number beyond the range of `f64`.
pub(crate) fn first_inexact(json: &str) -> Option<&str> {
    let mut rest = json;
    while let Some(start) = rest.find(|c: char| c == '"' || c == '-' || c.is_ascii_digit()) {
        rest = rest.get(start..)?;
        if let Some(string) = rest.strip_prefix('"') {
            rest = after_string(string);
            continue;
        }
        let is_part = |c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.' | 'e' | 'E');
        let (number, after) = rest.split_at(rest.find(|c| !is_part(c)).unwrap_or(rest.len()));
        if !is_exact(number) {
            return Some(number);
        }
        rest = after;
    }
    None
}

/// Returns the first number in `value` that may have been rounded when its JSON text was parsed: an
/// integer beyond 64 bits with more digits than an `f64` always keeps.
pub(crate) fn first_rounded(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64().filter(|float| {
            number.is_f64() && float.abs() >= BEYOND_64_BITS && digits(*float) > f64::DIGITS as usize
        }),
        Value::Array(items) => items.iter().find_map(first_rounded),
        Value::Object(members) => members.values().find_map(first_rounded),
        _ => None,
    }
}

/// Returns the number of significant digits of `float`, at least one.
fn digits(float: f64) -> usize {
    let text = format!("{float:e}");
    text.chars().take_while(|it| *it != 'e').filter(char::is_ascii_digit).count()
}

/// Returns the text after the string that `text` starts with, without its first quotation mark.
fn after_string(text: &str) -> &str {
    let mut is_escaped = false;
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return text.get(index + 1..).unwrap_or_default(),
            _ => {}
        }
    }
    ""
}

fn is_exact(number: &str) -> bool {
    if number.parse::<i64>().is_ok() || number.parse::<u64>().is_ok() {
        return true;
    }
    let Some(float) = number.parse::<f64>().ok().filter(|float| float.is_finite()) else { return false };
    if number.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit()) {
        return format!("{float:.0}") == number;
    }
    let mantissa = number.split(['e', 'E']).next().unwrap_or_default();
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let digits = digits.trim_matches('0');
    // A positive number that becomes zero is rounded as well.
    digits.len() <= MAX_DIGITS && (float != 0.0 || digits.is_empty())
}

#[cfg(test)]
mod tests {
    use super::first_inexact;

    #[test]
    fn rounded_numbers_are_found() {
        for (json, inexact) in [
            (r#"{"a": [1, -2.5, 1e3, 0.30000000000000004], "b": 18446744073709551615}"#, None),
            ("[-9223372036854775808, 100000000000000000000, 0.0, -0, 1.50000000000000000000]", None),
            (r#"{"18446744073709551617": "a\"12345678901234567890123"}"#, None),
            ("[1, 18446744073709551617]", Some("18446744073709551617")),
            ("{\"a\":-9223372036854775809}", Some("-9223372036854775809")),
            ("0.123456789012345678", Some("0.123456789012345678")),
            ("[1e400]", Some("1e400")),
            ("[1e-400]", Some("1e-400")),
        ] {
            assert_eq!(first_inexact(json), inexact, "{json}");
        }
    }
}
