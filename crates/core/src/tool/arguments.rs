//! Deserialization of validated arguments.

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::Segment;

use crate::call::ToolError;
use haft_schema::reference::join_pointer;

/// Deserializes the validated arguments of a tool call.
///
/// A float without a fraction, such as `3.0`, is accepted as an integer, as in JSON Schema.
///
/// # Errors
///
/// Fails with [`ToolError::InvalidArguments`] if the type `A` is stricter than the schema and
/// rejects the arguments. The error text contains the JSON pointer of the rejected argument.
pub fn parse_arguments<A: DeserializeOwned>(arguments: Value) -> Result<A, ToolError> {
    deserialize(arguments, None)
}

/// Deserializes `value`, the argument named `name`. If `name` is `None`, `value` is the object with
/// all arguments.
pub(crate) fn deserialize<A: DeserializeOwned>(mut value: Value, name: Option<&str>) -> Result<A, ToolError> {
    // Floats are converted only if this attempt fails, so that a field of type `Value` keeps its
    // floats.
    if let Ok(arguments) = A::deserialize(&value) {
        return Ok(arguments);
    }
    convert_whole_floats(&mut value);
    serde_path_to_error::deserialize(value).map_err(|error| {
        let root = name.map_or_else(String::new, |name| join_pointer("", name));
        let pointer = error.path().iter().fold(root, |pointer, segment| match segment {
            Segment::Map { key } => join_pointer(&pointer, key),
            Segment::Enum { variant } => join_pointer(&pointer, variant),
            Segment::Seq { index } => join_pointer(&pointer, &index.to_string()),
            Segment::Unknown => pointer,
        });
        let pointer = if pointer.is_empty() { "/" } else { &pointer };
        ToolError::InvalidArguments(format!("{pointer}: {}", error.inner()).into())
    })
}

/// Replaces each float without a fraction with an integer, for example `3.0` with `3`. Floats
/// beyond ±2^53 are not replaced.
fn convert_whole_floats(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            if let Some(integer) = number.as_f64().and_then(exact_integer) {
                *value = integer.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(convert_whole_floats),
        Value::Object(entries) => entries.values_mut().for_each(convert_whole_floats),
        _ => {}
    }
}

fn exact_integer(float: f64) -> Option<i64> {
    /// 2^53, the bound up to which `f64` represents every integer exactly.
    const MAX_EXACT: f64 = 9_007_199_254_740_992.0;
    (float.fract() == 0.0 && float.abs() <= MAX_EXACT).then_some(float as i64)
}
