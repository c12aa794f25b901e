use serde_json::{Value, json};

use super::{Loose, fields::object, half};

object! {
    /// An event of the Responses API.
    pub(crate) struct Event {
        pub(crate) kind = "type": Loose,
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
        @ /// Whether there may be halves of characters in its delta, for a [`Half`](super::Half).
        pub(crate) is_mended: bool,
    }
}

impl Event {
    pub(crate) fn read(data: &[u8]) -> serde_json::Result<Self> {
        let (mut event, is_mended) = half::read(data, |json| serde_json::from_slice::<Self>(json))?;
        event.is_mended = is_mended;
        if is_mended {
            event.item.iter_mut().chain(&mut event.response).for_each(half::make_whole);
        }
        Ok(event)
    }

    /// Whether it says what went wrong, and nothing else.
    pub(crate) fn is_complaint(&self) -> bool {
        let says = |field: &Loose| *field != Loose::Absent;
        self.response.is_none()
            && (says(&self.error) || self.message.as_text().is_some() || says(&self.detail))
    }

    /// What went wrong: an object of its own, or the event itself.
    pub(crate) fn into_error(self) -> Value {
        let is_mended = self.is_mended;
        let mut error = match self.error {
            Loose::Absent => json!({
                "message": self.message.into_text().or(self.detail.into_text()),
                "code": self.code.into_text(),
            }),
            Loose::Text(message) => json!({"message": message, "code": self.code.into_text()}),
            Loose::Number(error) => Value::Number(error),
            Loose::Json(error) => *error,
        };
        if is_mended {
            half::make_whole(&mut error);
        }
        error
    }
}
