//! Arguments that were rounded before they reached a tool.

use serde_json::Value;

/// 2^63. `serde_json` keeps an integer below as it is, and a positive one below 2^64.
const BEYOND_64_BITS: f64 = 9_223_372_036_854_775_808.0;

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
