//! Deserialization of validated arguments.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{call::ToolError, schema};

/// Deserializes the validated arguments of a tool call.
///
/// A float without a fraction, such as `3.0`, is accepted as an integer, as in JSON Schema.
///
/// # Errors
///
/// Fails with [`ToolError::InvalidArguments`] if the type `A` is stricter than the schema and
/// rejects the arguments. The error text contains the JSON pointer of the rejected argument.
pub fn parse_arguments<A: DeserializeOwned>(arguments: Value) -> Result<A, ToolError> {
    Ok(schema::deserialize(arguments)?)
}
