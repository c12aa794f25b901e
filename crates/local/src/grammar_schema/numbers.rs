//! Adaptation of numbers and numeric bounds for the grammar engine, which parses all numbers as
//! 64-bit floats.

use haft_core::schema::json_type;
use serde_json::{Map, Value, json};

/// The largest `n` for which a 64-bit float can represent all integers from 0 to `n` exactly.
const MAX_EXACT_INTEGER: u64 = 1 << 53;

/// The absolute value of the bound that replaces an exclusive bound of 0. The replacement is needed
/// because the engine permits 0 in some ranges that exclude it, such as `exclusiveMinimum: 0` with
/// `maximum: 0.25`.
const SMALLEST_BOUND: f64 = 1e-12;

/// Adds or replaces numeric bounds in the schema `derived`, so that the engine can handle its
/// numbers.
pub(super) fn add_number_bounds(derived: &mut Map<String, Value>) {
    if derived.contains_key("multipleOf") {
        // Without bounds, the engine may extend a number to its maximum length without reaching a
        // multiple of the `multipleOf` value.
        for (keyword, exclusive, bound) in [
            ("minimum", "exclusiveMinimum", -(MAX_EXACT_INTEGER as i64)),
            ("maximum", "exclusiveMaximum", MAX_EXACT_INTEGER as i64),
        ] {
            if !derived.contains_key(exclusive) {
                derived.entry(keyword).or_insert(Value::from(bound));
            }
        }
    }
    if derived.get("type").and_then(Value::as_str) != Some("number") {
        return;
    }
    for (exclusive, keyword, bound) in
        [("exclusiveMinimum", "minimum", SMALLEST_BOUND), ("exclusiveMaximum", "maximum", -SMALLEST_BOUND)]
    {
        if derived.get(exclusive).and_then(Value::as_f64) == Some(0.0) && !derived.contains_key(keyword) {
            derived.remove(exclusive);
            derived.insert(keyword.to_owned(), Value::from(bound));
        }
    }
}

/// Returns `true` if `value` contains an integer below `-MAX_EXACT_INTEGER` or above
/// [`MAX_EXACT_INTEGER`].
pub(super) fn contains_inexact_integer(value: &Value) -> bool {
    match value {
        Value::Number(number) => {
            let size = number.as_i64().map(i64::unsigned_abs).or(number.as_u64());
            size.is_some_and(|size| size > MAX_EXACT_INTEGER)
        }
        Value::Array(items) => items.iter().any(contains_inexact_integer),
        Value::Object(object) => object.values().any(contains_inexact_integer),
        _ => false,
    }
}

/// Returns the JSON types of the values that the keyword `const` or `enum` permits. The types
/// replace the keyword if it contains inexact integers.
///
/// `value` is the value of the keyword. `is_enum` is `true` for `enum` and `false` for `const`.
pub(super) fn value_types(value: &Value, is_enum: bool) -> Value {
    let values = value.as_array().filter(|_| is_enum).map_or(std::slice::from_ref(value), Vec::as_slice);
    let mut names: Vec<_> = values.iter().map(json_type).collect();
    names.sort_unstable();
    names.dedup();
    json!(names)
}
