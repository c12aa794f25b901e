use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::said::Said;
use super::failure::RecordedError;
use haft_core::model::{ChatEvent, ChatResponse, ModelError};

/// One request and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Exchange {
    /// In text: the earlier exchange whose request this one goes on from, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) follows: Option<usize>,
    /// The request, as [`ChatRequest::to_canonical_json`](haft_core::model::ChatRequest::to_canonical_json) writes it.
    pub(super) request: Value,
    #[serde(flatten)]
    pub(super) reply: Reply,
}

/// What came of a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Reply {
    /// The whole, where it was asked for as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) response: Option<ChatResponse>,
    /// The pieces, where it was streamed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) events: Vec<ChatEvent>,
    /// How it ended, if not well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<RecordedError>,
    /// Whether the program dropped the request before its end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) dropped: bool,
}

impl Reply {
    pub(super) fn whole(reply: &Result<ChatResponse, ModelError>) -> Self {
        match reply {
            Ok(response) => Self { response: Some(response.clone()), ..Self::default() },
            Err(error) => Self { error: Some(error.into()), ..Self::default() },
        }
    }

    pub(super) fn said(self) -> Said {
        if let Some(response) = self.response {
            return Said::Reply(Ok(Box::new(response)));
        }
        let error = self.error.map(|error| Err(error.into()));
        let events = self.events.into_iter().map(Ok).chain(error).collect();
        if self.dropped { Said::Hangs(events) } else { Said::Events(events) }
    }
}
