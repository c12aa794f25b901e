//! JSON without rounded numbers.
//!
//! `serde_json` holds a number in 64 bits and rounds any other number: it reads
//! `123456789012345678901234567890` as `1.2345678901234568e29`. The parsers of this module replace
//! such a number with an object with the single key [`INEXACT`]. Every
//! [`Schema`](crate::Schema) rejects this object, and [`json_text`] writes it as the original
//! number.

mod literal;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::ops::Range;

use serde_json::{Deserializer, Map, Number, Value};

pub(super) use self::literal::NumberFault;
use self::literal::{Held, hold};
use super::reference::join_pointer;
use super::violation::Violation;

/// The key of the object that replaces a number. The value of the key is the number as text.
const INEXACT: &str = "haft:number";
/// The minimum length of a number without exponent that may not be exact, in bytes.
const MIN_INEXACT_BYTES: usize = 17;

/// Parses `text` as JSON, like [`serde_json::from_str`], but rounds no number.
///
/// An integer in the range of `i64` or `u64` is exact in every notation: `1e3` is 1000. A number
/// that cannot be held becomes a value that every [`Schema`](crate::Schema) rejects, with a message
/// about the number: a number with more than 17 significant digits, except such an integer, and a
/// number outside of the range of `f64`, such as `1e400`.
///
/// # Examples
///
/// ```
/// use haft_schema::{Schema, parse_json};
/// use serde_json::json;
///
/// assert_eq!(parse_json("[1e3, 18446744073709551615, 0.1]")?, json!([1000, u64::MAX, 0.1]));
///
/// let schema = Schema::new(json!({"properties": {"id": {"type": "integer"}}}))?;
/// let violations = schema.validate(&parse_json(r#"{"id": 123456789012345678901}"#)?).unwrap_err();
/// assert_eq!(
///     violations.to_string(),
///     "/id: integer out of range: 123456789012345678901; write an integer from \
///      -9223372036854775808 to 18446744073709551615, or a string if the schema allows one"
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// Fails if `text` is not valid JSON, or is nested deeper than 127 levels.
pub fn parse_json(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str(&rewrite_numbers(text).0)
}

/// Parses `text` as [`parse_json`] does. Returns `None` if it is not a JSON object.
pub fn parse_json_object(text: &str) -> Option<Map<String, Value>> {
    match parse_json(text).ok()? {
        value if inexact_literal(&value).is_some() => None,
        Value::Object(object) => Some(object),
        _ => None,
    }
}

/// Parses the JSON value at the start of `text` as [`parse_json`] does. Returns the value and the
/// length of its text in bytes, with the whitespace before it. Other text may follow the value.
///
/// Returns `None` if `text` does not start with a JSON value.
pub fn parse_leading_json(text: &str) -> Option<(Value, usize)> {
    let leading = |text: &str| {
        let mut values = Deserializer::from_str(text).into_iter::<Value>();
        Some((values.next()?.ok()?, values.byte_offset()))
    };
    if let Some((value, end)) = leading(text) {
        let (exact, edits) = rewrite_numbers(text.get(..end)?);
        return if edits.is_empty() { Some((value, end)) } else { Some((leading(&exact)?.0, end)) };
    }
    // The parser stops at a number such as `1e400`.
    let (exact, edits) = rewrite_numbers(text);
    let (value, mut end) = leading(&exact)?;
    for Edit { range, new_length } in edits {
        if range.start + new_length > end {
            break;
        }
        end = end + range.len() - new_length;
    }
    Some((value, end))
}

/// Returns the first number in the JSON text `text` that [`serde_json`] would round. Returns `None`
/// if there is none. `text` may be invalid.
///
/// # Examples
///
/// ```
/// use haft_schema::first_rounded_number;
///
/// assert_eq!(first_rounded_number(r#"{"a": 0.1, "b": "1e400"}"#), None);
/// assert_eq!(first_rounded_number("[1e3, 18446744073709551616]"), Some("18446744073709551616"));
/// ```
pub fn first_rounded_number(text: &str) -> Option<&str> {
    let mut literals = numbers(text).filter_map(|range| text.get(range));
    literals.find(|literal| may_be_inexact(literal) && is_rounded(literal))
}

/// Parses `literal`, a number in the notation of JSON, as [`parse_json`] does. Returns `None` if
/// `literal` is not a number.
pub fn parse_number(literal: &str) -> Option<Value> {
    Some(match hold(literal)? {
        Held::AsWritten => Value::Number(literal.parse().ok()?),
        Held::Integer(integer) => Value::Number(integer),
        Held::Not(_) => inexact(literal),
    })
}

/// Returns the compact JSON text of `value`, a value of [`parse_json`]. A number that could not be
/// held is written as in its original text.
pub fn json_text(value: &Value) -> String {
    let text = value.to_string();
    let mut rest = text.as_str();
    let mut exact = String::new();
    let opening = format!("{{\"{INEXACT}\":\"");
    while let Some((before, after)) = rest.split_once(&opening) {
        let Some((literal, after)) = after.split_once("\"}").filter(|(it, _)| hold(it).is_some()) else {
            exact.extend([before, &opening]);
            rest = after;
            continue;
        };
        exact.extend([before, literal]);
        rest = after;
    }
    exact + rest
}

/// Returns the number that `value` stands for if it is the replacement of a number that could not
/// be held.
pub(super) fn inexact_literal(value: &Value) -> Option<&str> {
    let members = value.as_object().filter(|members| members.len() == 1)?;
    members.get(INEXACT)?.as_str()
}

/// Returns `true` if every number in `value` is exact, also as an integer. Most values are, and
/// need no further check. The caller must limit the depth of `value`.
pub(super) fn is_exact(value: &Value) -> bool {
    match value {
        Value::Number(number) => !is_wide_integer(number),
        Value::Array(items) => items.iter().all(is_exact),
        Value::Object(members) => inexact_literal(value).is_none() && members.values().all(is_exact),
        _ => true,
    }
}

/// Returns the violations for all numbers in `value` that could not be held.
pub(super) fn inexact_numbers(value: &Value) -> Vec<Violation> {
    let literals = find(value, |value| inexact_literal(value).map(str::to_owned));
    literals.into_iter().map(|(pointer, literal)| violation(&pointer, &literal)).collect()
}

/// Returns a copy of `value` in which each integer beyond 64 bits is replaced with a number with a
/// fraction, and the violations for these integers. A schema rejects the copy if it requires an
/// integer. Returns `None` if `value` has no such integer.
pub(super) fn with_fractions(value: &Value) -> Option<(Value, Vec<Violation>)> {
    let wide = find(value, |value| value.as_number().filter(|it| is_wide_integer(it)).cloned());
    let mut changed = (!wide.is_empty()).then(|| value.clone())?;
    for (pointer, number) in &wide {
        if let (Some(place), Some(float)) = (changed.pointer_mut(pointer), number.as_f64()) {
            *place = Value::from(LARGEST_FRACTION.copysign(float));
        }
    }
    let violation = |(pointer, number): &(String, Number)| {
        Violation::inexact_number(pointer, NumberFault::IntegerRange, &number.to_string())
    };
    Some((changed, wide.iter().map(violation).collect()))
}

/// The largest `f64` with a fraction.
const LARGEST_FRACTION: f64 = 4_503_599_627_370_495.5;

/// Returns `true` if `number` has no fraction and is outside of the range of `i64` and `u64`. An
/// `f64` in this range holds only some integers.
fn is_wide_integer(number: &Number) -> bool {
    const RANGE: Range<f64> = -9_223_372_036_854_775_808.0..18_446_744_073_709_551_616.0;
    number.is_f64() && number.as_f64().is_some_and(|float| float.fract() == 0.0 && !RANGE.contains(&float))
}

/// Returns the JSON pointers of all values in `value` for which `pick` returns `Some`.
fn find<T>(value: &Value, pick: impl Fn(&Value) -> Option<T>) -> Vec<(String, T)> {
    let mut found = Vec::new();
    let mut open = vec![(String::new(), value)];
    while let Some((pointer, value)) = open.pop() {
        if let Some(picked) = pick(value) {
            found.push((pointer, picked));
            continue;
        }
        match value {
            Value::Array(items) => {
                let place = |(index, item)| (join_pointer(&pointer, &usize::to_string(&index)), item);
                open.extend(items.iter().enumerate().rev().map(place));
            }
            Value::Object(members) => {
                let place = |(name, member): (&String, _)| (join_pointer(&pointer, name), member);
                open.extend(members.iter().rev().map(place));
            }
            _ => {}
        }
    }
    found
}

/// Creates the violation for `literal`, a number that cannot be held.
fn violation(pointer: &str, literal: &str) -> Violation {
    let fault = match hold(literal) {
        Some(Held::Not(fault)) => fault,
        // The model wrote the replacement of a number.
        _ => NumberFault::NumberRange,
    };
    Violation::inexact_number(pointer, fault, literal)
}

/// A replaced number in a JSON text.
struct Edit {
    /// The place of the number in the original text.
    range: Range<usize>,
    new_length: usize,
}

/// Returns `text` with a replacement for each number that `serde_json` would round.
fn rewrite_numbers(text: &str) -> (Cow<'_, str>, Vec<Edit>) {
    let mut edits = Vec::new();
    let mut rewritten = String::new();
    let mut copied = 0;
    for range in numbers(text) {
        let Some(number) = text.get(range.clone()).and_then(replacement) else { continue };
        rewritten.push_str(text.get(copied..range.start).unwrap_or_default());
        rewritten.push_str(&number);
        copied = range.end;
        edits.push(Edit { range, new_length: number.len() });
    }
    if edits.is_empty() {
        return (Cow::Borrowed(text), edits);
    }
    rewritten.push_str(text.get(copied..).unwrap_or_default());
    (Cow::Owned(rewritten), edits)
}

/// Returns the places of the numbers in the JSON text `text`.
fn numbers(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut bytes = text.bytes().enumerate().peekable();
    let is_part = |byte: u8| byte.is_ascii_digit() || b"+-.eE".contains(&byte);
    std::iter::from_fn(move || {
        while let Some((start, byte)) = bytes.next() {
            if byte == b'"' {
                while let Some((_, inside)) = bytes.next().filter(|(_, inside)| *inside != b'"') {
                    if inside == b'\\' {
                        bytes.next();
                    }
                }
            } else if byte == b'-' || byte.is_ascii_digit() {
                let mut end = start + 1;
                while bytes.next_if(|(_, byte)| is_part(*byte)).is_some() {
                    end += 1;
                }
                return Some(start..end);
            }
        }
        None
    })
}

/// Returns `false` for most numbers: those that are exact because they are short.
fn may_be_inexact(literal: &str) -> bool {
    literal.len() >= MIN_INEXACT_BYTES || literal.contains(['e', 'E'])
}

fn is_rounded(literal: &str) -> bool {
    match hold(literal) {
        Some(Held::Integer(integer)) => !literal::holds(literal, &integer),
        Some(Held::Not(_)) => true,
        Some(Held::AsWritten) | None => false,
    }
}

/// Returns the JSON text that replaces `literal`, or `None` if `serde_json` holds the number.
fn replacement(literal: &str) -> Option<String> {
    if !may_be_inexact(literal) {
        return None;
    }
    match hold(literal)? {
        Held::AsWritten => None,
        Held::Integer(integer) => Some(integer.to_string()),
        Held::Not(_) => Some(inexact(literal).to_string()),
    }
}

fn inexact(literal: &str) -> Value {
    Value::Object(Map::from_iter([(INEXACT.to_owned(), literal.into())]))
}
