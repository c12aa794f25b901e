use serde::Deserialize;
use serde_json::{Value, json};

use haft_core::model::adapter::surrogates;

use super::LenientValue;

/// A stream event of the Responses API.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ResponsesEvent {
    #[serde(rename = "type")]
    pub(crate) kind: LenientValue,
    pub(crate) output_index: LenientValue,
    pub(crate) item_id: LenientValue,
    pub(crate) content_index: LenientValue,
    pub(crate) summary_index: LenientValue,
    pub(crate) delta: LenientValue,
    /// The name and the final arguments of a call, in `response.function_call_arguments.done`.
    pub(crate) name: LenientValue,
    pub(crate) arguments: LenientValue,
    pub(crate) item: Option<Value>,
    pub(crate) response: Option<Value>,
    pub(crate) error: LenientValue,
    code: LenientValue,
    message: LenientValue,
    detail: LenientValue,
    /// `true` if the delta may contain private-use characters in place of lone surrogates: see
    /// [`SurrogateJoiner`](surrogates::SurrogateJoiner).
    #[serde(skip)]
    pub(crate) has_stand_ins: bool,
}

impl ResponsesEvent {
    pub(crate) fn read(data: &[u8]) -> serde_json::Result<Self> {
        let (mut event, has_stand_ins) = surrogates::parse_with_stand_ins(data, Self::read_json)?;
        event.has_stand_ins = has_stand_ins;
        if has_stand_ins {
            event.item.iter_mut().chain(&mut event.response).for_each(surrogates::join_surrogates);
        }
        Ok(event)
    }

    fn read_json(data: &[u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(data).or_else(|error| {
            // The derived `Deserialize` rejects duplicate keys. Parsing through `Value` accepts
            // them.
            let value: Option<Value> = serde_json::from_slice(data).ok();
            value.filter(Value::is_object).and_then(|value| Self::deserialize(value).ok()).ok_or(error)
        })
    }

    /// Returns `true` if this event has the fields of an error. Some servers send an error without
    /// a `type`.
    pub(crate) fn is_error_event(&self) -> bool {
        let has = |field: &LenientValue| *field != LenientValue::Absent;
        self.response.is_none()
            && (has(&self.error) || self.message.as_non_empty_str().is_some() || has(&self.detail))
    }

    /// Returns the error of the event: the `error` field, or else an object with the event's
    /// message and `code`.
    pub(crate) fn into_error_json(self) -> Value {
        let has_stand_ins = self.has_stand_ins;
        let mut error = match self.error {
            LenientValue::Absent => json!({
                "message": self.message.into_text().or(self.detail.into_text()),
                "code": self.code.into_text(),
            }),
            LenientValue::Text(message) => json!({"message": message, "code": self.code.into_text()}),
            LenientValue::Number(error) => Value::Number(error),
            LenientValue::Json(error) => *error,
        };
        if has_stand_ins {
            surrogates::join_surrogates(&mut error);
        }
        error
    }
}
