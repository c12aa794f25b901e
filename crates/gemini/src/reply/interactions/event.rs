use haft_core::{
    model::adapter::{contains_error, surrogates},
    usage::Usage,
};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::usage::InteractionUsage;

/// An event of a stream.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct InteractionsEvent {
    #[serde(rename = "event_type")]
    pub(super) kind: String,
    pub(super) index: Option<i64>,
    pub(super) step: Option<Box<RawValue>>,
    pub(super) delta: Option<Value>,
    pub(super) status: Option<String>,
    pub(super) interaction: Option<WireInteraction>,
    usage: Option<InteractionUsage>,
    metadata: Option<EventMetadata>,
    /// The whole event, if its type is unknown.
    #[serde(skip)]
    body: Option<Value>,
    /// `true` if strings may contain private-use characters in place of lone surrogates.
    #[serde(skip)]
    pub(super) has_stand_ins: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct EventMetadata {
    total_usage: Option<InteractionUsage>,
}

/// An interaction: the body of a reply, or a part of an event.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireInteraction {
    pub(super) id: Option<String>,
    pub(super) status: Option<String>,
    pub(super) model: Option<String>,
    pub(super) steps: Option<Vec<Box<RawValue>>>,
    pub(super) usage: Option<InteractionUsage>,
    pub(super) error: Option<Value>,
    pub(super) errors: Option<Vec<Value>>,
}

const KNOWN_EVENTS: [&str; 6] = [
    "step.start",
    "step.delta",
    "step.stop",
    "interaction.created",
    "interaction.completed",
    "interaction.status_update",
];

impl InteractionsEvent {
    pub(crate) fn read(data: &[u8]) -> serde_json::Result<Self> {
        let (mut event, has_stand_ins) = surrogates::parse_raw_with_stand_ins(data, |json| {
            let mut event: Self = serde_json::from_slice(json)?;
            if !KNOWN_EVENTS.contains(&event.kind.as_str()) {
                event.body = serde_json::from_slice(json).ok();
            }
            Ok(event)
        })?;
        event.has_stand_ins = has_stand_ins;
        Ok(event)
    }

    /// Returns the usage of the interaction so far. `None` if the event has none. The usage of
    /// `step.stop` is that of its step.
    pub(super) fn usage(&self) -> Option<Usage> {
        let total = self.metadata.as_ref().and_then(|metadata| metadata.total_usage.as_ref());
        let update = self.usage.as_ref().filter(|_| self.kind == "interaction.status_update");
        total.or(update).map(|usage| usage.clone().into())
    }

    /// Returns the error in an event of an unknown type, such as `error`.
    pub(super) fn error(&self) -> Option<Value> {
        let body = self.body.as_ref()?;
        let is_error = self.kind == "error" || contains_error(body);
        is_error.then(|| body.get("error").filter(|error| !error.is_null()).unwrap_or(body).clone())
    }
}

impl WireInteraction {
    /// Parses a body. The flag is `true` if strings may contain private-use characters in place of
    /// lone surrogates.
    pub(super) fn read(body: &[u8]) -> serde_json::Result<(Self, bool)> {
        surrogates::parse_raw_with_stand_ins(body, |json| serde_json::from_slice(json))
    }
}
