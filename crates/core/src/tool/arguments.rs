//! From validated arguments to typed ones.

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::Segment;

use crate::call::ToolError;
use haft_schema::reference::join;

/// Reads typed arguments out of validated ones.
///
/// By the rules of JSON Schema `3.0` is an integer, by those of serde it is not: here it is.
///
/// # Errors
///
/// Fails with [`ToolError::InvalidArguments`], which says where, if the type is stricter than its schema.
pub fn from_arguments<A: DeserializeOwned>(arguments: Value) -> Result<A, ToolError> {
    read(arguments, None)
}

/// Reads the typed argument of a name, or all arguments.
pub(crate) fn read<A: DeserializeOwned>(mut value: Value, name: Option<&str>) -> Result<A, ToolError> {
    // A value that can be read stays as it is, untyped parts and all.
    if let Ok(read) = A::deserialize(&value) {
        return Ok(read);
    }
    integers_from_floats(&mut value);
    serde_path_to_error::deserialize(value).map_err(|error| {
        let place = name.map_or_else(String::new, |name| join("", name));
        let place = error.path().iter().fold(place, |place, segment| match segment {
            Segment::Map { key } => join(&place, key),
            Segment::Enum { variant } => join(&place, variant),
            Segment::Seq { index } => join(&place, &index.to_string()),
            Segment::Unknown => place,
        });
        let place = if place.is_empty() { "/" } else { &place };
        ToolError::InvalidArguments(format!("{place}: {}", error.inner()).into())
    })
}

/// Writes floats without a fraction as integers, as far as `i64` goes.
fn integers_from_floats(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            if let Some(integer) = number.as_f64().and_then(exact_integer) {
                *value = integer.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(integers_from_floats),
        Value::Object(entries) => entries.values_mut().for_each(integers_from_floats),
        _ => {}
    }
}

fn exact_integer(float: f64) -> Option<i64> {
    /// Beyond 2^53 a float no longer says which integer is meant.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    (float.fract() == 0.0 && float.abs() <= EXACT).then_some(float as i64)
}
