//! Numbers in JSON text that a [`serde_json::Value`] cannot hold exactly.

use haft_core::text::truncate;

/// The number of significant digits with which every `f64` is written exactly. Many serializers
/// write as many digits.
const MAX_FLOAT_DIGITS: usize = 17;

/// Returns the first number in `json` that parsing would change: an integer beyond 64 bits, a
/// number with more than 17 significant digits, or one beyond the range of `f64`. Returns `None` if
/// there is none. `json` may be invalid.
///
/// Two texts of the same number are equal: `1e2`, `100` and `100.0`.
pub(crate) fn inexact_number(json: &str) -> Option<&str> {
    let mut rest = json;
    loop {
        let start = rest.find(|it: char| it == '"' || it == '-' || it.is_ascii_digit())?;
        rest = rest.get(start..)?;
        if let Some(text) = rest.strip_prefix('"') {
            rest = text.get(string_length(text)..)?;
            continue;
        }
        let is_part = |it: char| it.is_ascii_digit() || matches!(it, '-' | '+' | '.' | 'e' | 'E');
        let (number, after) = rest.split_at(rest.find(|it| !is_part(it)).unwrap_or(rest.len()));
        if !is_exact(number) {
            return Some(number);
        }
        rest = after;
    }
}

/// Returns the length of the beginning of `text` up to the end of a JSON string, with its quotation
/// mark.
fn string_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut position = 0;
    loop {
        match bytes.get(position) {
            Some(b'\\') => position += 2,
            Some(b'"') => return position + 1,
            Some(_) => position += 1,
            None => return text.len(),
        }
    }
}

/// Returns `true` if `number` stays the same number after it is parsed and written.
fn is_exact(number: &str) -> bool {
    // Most numbers are short.
    if number.len() <= 15 && !number.contains(['e', 'E']) {
        return true;
    }
    if number.parse::<i64>().is_ok() || number.parse::<u64>().is_ok() {
        return true;
    }
    let (Some(decimal), Ok(float)) = (Decimal::parse(number), number.parse::<f64>()) else {
        // Not a number. The parser reports it.
        return true;
    };
    if !float.is_finite() || (float == 0.0) != decimal.digits.is_empty() {
        return false;
    }
    // Programs in C write 17 digits of an `f64`: `0.10000000000000001`. No digit is lost.
    let is_integer = decimal.exponent >= 0;
    let is_float = !is_integer && decimal.digits.len() <= MAX_FLOAT_DIGITS;
    is_float || Decimal::parse(&format!("{float:e}")).is_some_and(|written| written == decimal)
}

/// A decimal number: digits without zeros at either end, times a power of 10. The sign is ignored.
#[derive(PartialEq, Eq)]
struct Decimal {
    digits: String,
    exponent: i64,
}

impl Decimal {
    fn parse(number: &str) -> Option<Self> {
        let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
        let (integer, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let mut exponent: i64 = truncate(exponent, 18).parse().ok()?;
        exponent = exponent.checked_sub(i64::try_from(fraction.len()).ok()?)?;
        let digits = format!("{}{fraction}", integer.trim_start_matches('-'));
        if digits.is_empty() || !digits.bytes().all(|it| it.is_ascii_digit()) {
            return None;
        }
        let significant = digits.trim_end_matches('0');
        exponent = exponent.checked_add(i64::try_from(digits.len() - significant.len()).ok()?)?;
        let digits = significant.trim_start_matches('0').to_owned();
        let exponent = if digits.is_empty() { 0 } else { exponent };
        Some(Self { digits, exponent })
    }
}

#[cfg(test)]
mod tests {
    use super::inexact_number;

    #[test]
    fn numbers_of_64_bits_and_17_digits_are_exact() {
        for number in [
            "0",
            "-1",
            "18446744073709551615",
            "-9223372036854775808",
            "1.5",
            "0.1",
            "0.10000000000000001",
            "0.30000000000000004",
            "-12345678.123456789",
            "1e2",
            "1E+2",
            "2.50e-3",
            "0e999",
            "0.000000000000000000000",
            "1000000000000000000000",
            "1e300",
            "1.7976931348623157e308",
        ] {
            assert_eq!(inexact_number(number), None, "{number}");
        }
    }

    #[test]
    fn other_numbers_are_inexact() {
        for number in [
            "18446744073709551616",
            "-9223372036854775809",
            "123456789012345678901234567890",
            "12345678901234567890123e-2",
            "0.1234567890123456789",
            "3.14159265358979323846",
            "1e400",
            "-1e400",
            "1e-400",
            "1e99999999999999999999",
        ] {
            let json = format!(r#"{{"a": [1, "text \" 1e400"], "b": {{"c": {number}}}}}"#);
            assert_eq!(inexact_number(&json), Some(number), "{number}");
        }
    }

    #[test]
    fn text_and_invalid_json_have_no_numbers() {
        for json in [
            r#""18446744073709551616""#,
            r#"{"1e400": "\\"}"#,
            r#"["a"#,
            "tru-",
            "\"\\",
            "--------------------",
        ] {
            assert_eq!(inexact_number(json), None, "{json}");
        }
    }
}
