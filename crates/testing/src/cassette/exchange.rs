use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::recorded_error::RecordedError;
use crate::scripted_reply::ScriptedReply;
use haft_core::model::{ChatEvent, ChatResponse, ModelError};

/// A recorded request and its reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Exchange {
    /// The number (from 1) of an earlier exchange, if `request` contains only the differences from
    /// the request of that exchange. The field is used only in the JSON text of a cassette. In
    /// memory, it is `None` and `request` is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) follows: Option<usize>,
    /// The request, in the form returned by
    /// [`ChatRequest::to_canonical_json`](haft_core::model::ChatRequest::to_canonical_json).
    pub(super) request: Value,
    #[serde(flatten)]
    pub(super) reply: RecordedReply,
}

/// The recorded reply to a request: a complete response, the events of a stream, or an error. If a
/// stream failed, the reply contains both its events and the error.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct RecordedReply {
    /// The complete response, if the program called `chat`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) response: Option<ChatResponse>,
    /// The events of the reply, if the program called `stream`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) events: Vec<ChatEvent>,
    /// The error, if the request failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<RecordedError>,
    /// `true` if the program dropped the request before the reply was complete.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) dropped: bool,
}

impl RecordedReply {
    pub(super) fn from_result(reply: &Result<ChatResponse, ModelError>) -> Self {
        match reply {
            Ok(response) => Self { response: Some(response.clone()), ..Self::default() },
            Err(error) => Self { error: Some(error.into()), ..Self::default() },
        }
    }

    pub(super) fn into_scripted(self) -> ScriptedReply {
        if let Some(response) = self.response {
            return ScriptedReply::Complete(Ok(Box::new(response)));
        }
        let error = self.error.map(|error| Err(error.into()));
        let events = self.events.into_iter().map(Ok).chain(error).collect();
        if self.dropped { ScriptedReply::Hangs(events) } else { ScriptedReply::Events(events) }
    }
}
