//! Bodies of requests, which are checked with the schemas of the description.

use std::sync::LazyLock;

use haft_core::{
    Schema,
    schema::{deserialize, parse_json},
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use crate::{
    chat::ChatRequest,
    error::ApiError,
    runs::{DecisionRequest, MessageRequest, StartRequest},
    sessions::{ForkRequest, RewindRequest},
    tools::CallRequest,
};

/// A type of a body with its schema.
pub(crate) trait RequestBody: DeserializeOwned {
    fn schema() -> &'static Schema;
}

macro_rules! request_bodies {
    ($($body:ty),* $(,)?) => {
        $(impl RequestBody for $body {
            fn schema() -> &'static Schema {
                static SCHEMA: LazyLock<Schema> = LazyLock::new(compile::<$body>);
                &SCHEMA
            }
        })*
    };
}

request_bodies!(
    CallRequest,
    ChatRequest,
    DecisionRequest,
    ForkRequest,
    MessageRequest,
    RewindRequest,
    StartRequest,
);

/// Compiles the schema of `T` in the description.
fn compile<T: ToSchema>() -> Schema {
    let mut named = Vec::new();
    T::schemas(&mut named);
    let mut schema = json!(T::schema());
    schema["$defs"] =
        named.into_iter().map(|(name, schema)| (name, json!(schema))).collect::<Map<_, _>>().into();
    move_references(&mut schema);
    Schema::new(schema).unwrap_or_else(|error| {
        tracing::error!(%error, "the schema of a body is invalid");
        Schema::object()
    })
}

/// Replaces references to the components of the description.
fn move_references(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            if let Some(Value::String(reference)) = members.get_mut("$ref") {
                *reference = reference.replace("#/components/schemas/", "#/$defs/");
            }
            members.values_mut().for_each(move_references);
        }
        Value::Array(items) => items.iter_mut().for_each(move_references),
        _ => {}
    }
}

/// Reads the JSON body of a request. The error has all faults with their places.
pub(crate) fn read_json<T: RequestBody>(body: &[u8]) -> Result<T, ApiError> {
    let invalid = |fault: String| ApiError::invalid(format!("invalid body: {fault}"));
    let text = std::str::from_utf8(body).map_err(|error| invalid(error.to_string()))?;
    let value = parse_json(text).map_err(|error| invalid(error.to_string()))?;
    T::schema().validate(&value).map_err(|violations| invalid(violations.to_string()))?;
    // The text is read again, so that a member of raw JSON keeps it. An integer can be written as
    // `3.0` (JSON Schema 2020-12, validation, section 6.1.1), which only the second attempt accepts.
    match serde_json::from_str(text) {
        Ok(typed) => Ok(typed),
        Err(_) => deserialize(value).map_err(|mismatch| invalid(mismatch.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A schema that cannot be compiled would accept each object.
    #[test]
    fn bodies_have_their_schemas() {
        for schema in [
            CallRequest::schema(),
            ChatRequest::schema(),
            DecisionRequest::schema(),
            ForkRequest::schema(),
            MessageRequest::schema(),
            RewindRequest::schema(),
            StartRequest::schema(),
        ] {
            assert!(!schema.is_valid(&json!({"unknown": 1})), "{}", schema.as_value());
        }
    }
}
