use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use haft_core::model::ModelError;

/// The JSON of a [`ModelError`]. Unlike a `ModelError`, it can be cloned and compared. The `source`
/// of the error is not recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Value")]
pub(super) struct RecordedError(Value);

impl From<&ModelError> for RecordedError {
    fn from(error: &ModelError) -> Self {
        let message_only = |_| json!({"failed": {"message": error.to_string()}});
        Self(serde_json::to_value(error).unwrap_or_else(message_only))
    }
}

impl TryFrom<Value> for RecordedError {
    type Error = serde_json::Error;

    fn try_from(value: Value) -> Result<Self, serde_json::Error> {
        ModelError::deserialize(&value)?;
        Ok(Self(value))
    }
}

impl From<RecordedError> for ModelError {
    fn from(error: RecordedError) -> Self {
        serde_json::from_value(error.0).unwrap_or_else(Self::failed)
    }
}
