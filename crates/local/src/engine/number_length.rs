//! Limits on the length and the magnitude of generated numbers.
//!
//! The grammar of JSON permits `1e999`, numbers with a thousand digits, and integers that need more
//! than 64 bits. Models with random weights generate these numbers, and common parsers reject them.

use llguidance::toktrie::SimpleVob;

use super::json_state::JsonState;
use crate::tokenizer::Tokenizer;

/// The maximum length of a number with a fraction or an exponent, in bytes. The shortest scientific
/// notation that round-trips a 64-bit float has at most this length, including sign, point and
/// exponent.
const MAX_NUMBER_BYTES: usize = 24;
/// The maximum number of digits in an exponent. A 64-bit float can represent `1e99`, but not
/// `1e999`.
const MAX_EXPONENT_DIGITS: usize = 2;

/// Removes the tokens from `allowed` that would make the number at the end of `written` too long or
/// too large, and returns the remaining tokens. If no token would remain, returns all of `allowed`.
pub(super) fn exclude_long_numbers(
    written: &[u8],
    state: JsonState,
    allowed: SimpleVob,
    tokenizer: &Tokenizer,
) -> SimpleVob {
    let number = trailing_number(written);
    if number.is_empty() || state.is_in_string() {
        return allowed;
    }
    let mut bounded = allowed.clone();
    for token in allowed.iter() {
        let more = leading_number(tokenizer.bytes(token));
        if !more.is_empty() && is_too_long(&[number, more].concat()) {
            bounded.disallow_token(token);
        }
    }
    if bounded.is_zero() { allowed } else { bounded }
}

fn is_too_long(number: &[u8]) -> bool {
    if number.iter().all(|byte| matches!(byte, b'-' | b'0'..=b'9')) {
        return !fits_64_bits(number);
    }
    let exponent = number.iter().position(|byte| matches!(byte, b'e' | b'E'));
    let exponent = exponent.and_then(|place| number.get(place..)).unwrap_or_default();
    number.len() > MAX_NUMBER_BYTES
        || exponent.iter().filter(|byte| byte.is_ascii_digit()).count() > MAX_EXPONENT_DIGITS
}

/// Returns `true` if `integer` fits in 64 bits. An incomplete integer such as `-` also fits.
fn fits_64_bits(integer: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(integer) else { return false };
    text == "-" || text.parse::<i64>().is_ok() || text.parse::<u64>().is_ok()
}

fn is_numeric(byte: &u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E')
}

fn trailing_number(text: &[u8]) -> &[u8] {
    let start = text.iter().rposition(|byte| !is_numeric(byte)).map_or(0, |place| place + 1);
    text.get(start..).unwrap_or_default()
}

fn leading_number(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|byte| !is_numeric(byte)).unwrap_or(text.len());
    text.get(..end).unwrap_or_default()
}
