//! Deserialization of validated values.

#[cfg(test)]
mod tests;

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::Segment;

use crate::reference::join_pointer;

/// The error of [`deserialize`] and of [typed properties](crate::object): a Rust type is stricter
/// than the schema and rejects a value.
///
/// # Examples
///
/// ```
/// use haft_schema::deserialize;
/// use serde_json::json;
///
/// let error = deserialize::<Vec<u8>>(json!([1, 300])).unwrap_err();
/// assert_eq!(error.pointer, "/1");
/// assert_eq!(error.to_string(), "/1: invalid value: integer `300`, expected u8");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {reason}", display_pointer(pointer))]
#[non_exhaustive]
pub struct TypeMismatch {
    /// The JSON pointer of the rejected value. The pointer of the root is empty, and is displayed
    /// as `/`.
    pub pointer: String,
    /// The reason from the implementation of `Deserialize`, or `missing` for an absent property.
    pub reason: String,
}

/// Deserializes `value` into a `T`.
///
/// A float without a fraction, such as `3.0`, is accepted as an integer, as in JSON Schema.
///
/// # Errors
///
/// Fails with a [`TypeMismatch`] if the type `T` rejects the value.
pub fn deserialize<T: DeserializeOwned>(value: Value) -> Result<T, TypeMismatch> {
    deserialize_property(value, None)
}

/// Deserializes `value`, the property named `name`. If `name` is `None`, `value` is the root.
pub(crate) fn deserialize_property<T: DeserializeOwned>(
    mut value: Value,
    name: Option<&str>,
) -> Result<T, TypeMismatch> {
    // Floats are converted only if this attempt fails, so that a field of type `Value` keeps its
    // floats.
    if let Ok(typed) = T::deserialize(&value) {
        return Ok(typed);
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
        TypeMismatch { pointer, reason: error.into_inner().to_string() }
    })
}

fn display_pointer(pointer: &str) -> &str {
    if pointer.is_empty() { "/" } else { pointer }
}

/// Replaces each [exact integer](exact_integer) that is written as a float, for example `3.0` with
/// `3`.
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

/// Returns the integer with the value of `float`. `None` if `float` has a fraction, or is not
/// between -2^53 and 2^53. From 2^53 on, a float can stand for several integers.
///
/// # Examples
///
/// ```
/// use haft_schema::exact_integer;
///
/// assert_eq!(exact_integer(3.0), Some(3));
/// assert_eq!(exact_integer(3.5), None);
/// assert_eq!(exact_integer(9_007_199_254_740_992.0), None);
/// ```
pub fn exact_integer(float: f64) -> Option<i64> {
    const BOUND: f64 = 9_007_199_254_740_992.0;
    (float.fract() == 0.0 && float.abs() < BOUND).then_some(float as i64)
}
