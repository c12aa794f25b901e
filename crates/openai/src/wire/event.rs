use haft_core::{Value, json};
use serde::Deserialize;

use super::Loose;

/// An event of the Responses API.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Event {
    pub(crate) r#type: Loose,
    pub(crate) output_index: Loose,
    pub(crate) item_id: Loose,
    pub(crate) content_index: Loose,
    pub(crate) summary_index: Loose,
    pub(crate) delta: Loose,
    pub(crate) item: Option<Value>,
    pub(crate) response: Option<Value>,
    pub(crate) error: Loose,
    code: Loose,
    message: Loose,
    detail: Loose,
}

impl Event {
    /// What went wrong: an object of its own, or the event itself.
    pub(crate) fn into_error(self) -> Value {
        match self.error {
            Loose::Absent => json!({
                "message": self.message.into_text().or(self.detail.into_text()),
                "code": self.code.into_text(),
            }),
            Loose::Text(message) => json!({"message": message, "code": self.code.into_text()}),
            Loose::Number(error) => Value::Number(error),
            Loose::Json(error) => *error,
        }
    }
}
