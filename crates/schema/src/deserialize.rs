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
#[error("{pointer}: {reason}")]
#[non_exhaustive]
pub struct TypeMismatch {
    /// The JSON pointer of the rejected value. `/` for the root.
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
        let pointer = if pointer.is_empty() { "/".to_owned() } else { pointer };
        TypeMismatch { pointer, reason: error.into_inner().to_string() }
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
