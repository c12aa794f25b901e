use serde::de::IgnoredAny;
use serde_json::Number;

/// The maximum number of significant digits of a number that an `f64` holds. 17 digits identify an
/// `f64` (IEEE 754-2008, section 5.12.2).
const MAX_DIGITS: usize = 17;
/// The maximum number of digits of an integer in 64 bits.
const MAX_INTEGER_DIGITS: usize = 20;

/// The form in which a number can be held without a change of its value.
pub(super) enum Held {
    /// As `serde_json` reads it.
    AsWritten,
    /// As this integer, which is written with a fraction or an exponent.
    Integer(Number),
    /// The number cannot be held.
    Not(NumberFault),
}

/// The reason for which a number cannot be held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NumberFault {
    /// An integer is outside of the range of `i64` and `u64`.
    IntegerRange,
    /// A number is outside of the range of `f64`, or too close to 0.
    NumberRange,
    /// A number has more than [`MAX_DIGITS`] significant digits.
    Digits,
}

/// Returns the form in which `literal` can be held, or `None` if `literal` is not a JSON number.
pub(super) fn hold(literal: &str) -> Option<Held> {
    if !literal.starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
        return None;
    }
    serde_json::from_str::<IgnoredAny>(literal).ok()?;
    let (mantissa, exponent) = match literal.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (literal, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits: String = whole.trim_start_matches('-').chars().chain(fraction.chars()).collect();
    let significant = digits.trim_start_matches('0').trim_end_matches('0');
    if significant.is_empty() {
        return Some(Held::AsWritten);
    }
    let zeros = digits.len() - digits.trim_end_matches('0').len();
    // An exponent of more than 64 bits is far beyond the range of any number.
    let written = exponent.map_or(Some(0), |it| it.parse::<i64>().ok());
    let exponent_of_ten = written.and_then(|it| {
        it.checked_add(i64::try_from(zeros).ok()?)?.checked_sub(i64::try_from(fraction.len()).ok()?)
    });
    let is_plain = whole.len() == literal.len();
    if let Some(integer) = exponent_of_ten.and_then(|it| integer(literal, significant, it)) {
        let is_written_exactly = is_plain || exponent.is_none() && holds(literal, &integer);
        return Some(if is_written_exactly { Held::AsWritten } else { Held::Integer(integer) });
    }
    let is_in_range = literal.parse::<f64>().is_ok_and(f64::is_normal);
    Some(match (significant.len() > MAX_DIGITS, is_in_range) {
        (true, _) if is_plain => Held::Not(NumberFault::IntegerRange),
        (_, false) => Held::Not(NumberFault::NumberRange),
        (true, true) => Held::Not(NumberFault::Digits),
        (false, true) => Held::AsWritten,
    })
}

/// Returns the integer with the significant digits `significant` and this power of ten. `None` if
/// the number has a fraction, or is outside of the range of `i64` and `u64`.
fn integer(literal: &str, significant: &str, exponent: i64) -> Option<Number> {
    let zeros = usize::try_from(exponent).ok().filter(|zeros| *zeros < MAX_INTEGER_DIGITS)?;
    if significant.len() + zeros > MAX_INTEGER_DIGITS {
        return None;
    }
    let sign = if literal.starts_with('-') { "-" } else { "" };
    let text = format!("{sign}{significant}{}", "0".repeat(zeros));
    let signed = text.parse::<i64>().ok().map(Number::from);
    signed.or_else(|| text.parse::<u64>().ok().map(Number::from))
}

/// Returns `true` if the `f64` that `literal` denotes is exactly `integer`.
pub(super) fn holds(literal: &str, integer: &Number) -> bool {
    literal.parse::<f64>().is_ok_and(|float| format!("{float:.0}") == integer.to_string())
}
