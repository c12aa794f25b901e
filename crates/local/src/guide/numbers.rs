//! Numbers that the grammar engine would write wrongly, as it reads every number as a double.

use serde_json::{Map, Value, json};

/// The whole numbers up to here are doubles, each of them.
const EXACT: u64 = 1 << 53;

/// Stands for what is next to 0, which the engine takes for 0.
const TINY: f64 = 1e-12;

/// Gives the bounds of a guide in the way that the engine gets right.
pub(super) fn bounded(guide: &mut Map<String, Value>) {
    if guide.contains_key("multipleOf") {
        // A number of many digits may be no multiple yet when it is long enough to end.
        for (keyword, exclusive, bound) in
            [("minimum", "exclusiveMinimum", -(EXACT as i64)), ("maximum", "exclusiveMaximum", EXACT as i64)]
        {
            if !guide.contains_key(exclusive) {
                guide.entry(keyword).or_insert(Value::from(bound));
            }
        }
    }
    if guide.get("type").and_then(Value::as_str) != Some("number") {
        return;
    }
    for (exclusive, keyword, bound) in
        [("exclusiveMinimum", "minimum", TINY), ("exclusiveMaximum", "maximum", -TINY)]
    {
        if guide.get(exclusive).and_then(Value::as_f64) == Some(0.0) && !guide.contains_key(keyword) {
            guide.remove(exclusive);
            guide.insert(keyword.to_owned(), Value::from(bound));
        }
    }
}

/// Whether the value holds a number that a double may round.
pub(super) fn are_inexact(value: &Value) -> bool {
    match value {
        Value::Number(number) => {
            let size = number.as_i64().map(i64::unsigned_abs).or(number.as_u64());
            size.is_some_and(|size| size > EXACT)
        }
        Value::Array(items) => items.iter().any(are_inexact),
        Value::Object(object) => object.values().any(are_inexact),
        _ => false,
    }
}

/// The type of a constant, or the types of what an enumeration lists: all that can be said without its numbers.
pub(super) fn types(value: &Value, enumerates: bool) -> Value {
    let values = value.as_array().filter(|_| enumerates).map_or(std::slice::from_ref(value), Vec::as_slice);
    let mut names: Vec<_> = values.iter().map(type_name).collect();
    names.sort_unstable();
    names.dedup();
    json!(names)
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
