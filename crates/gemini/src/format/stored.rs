//! The parts of a reply in the provider data of its message: their order, their signatures, and the
//! parts that have no field in the message. Texts and arguments are only in the message.

use haft_core::{ToolCall, content::Content, message::AssistantMessage, model::adapter::Origin};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::DATA_KEY;

/// A part of a reply, without its text and its arguments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StoredPart {
    /// A range of the text of the message, in bytes.
    Text(usize, usize),
    /// A range of the reasoning of the message, in bytes.
    Thought(usize, usize),
    /// A call.
    Call {
        /// The id of the call in the message.
        id: String,
        /// The id that the server sent. `None` if it sent none.
        sent_id: Option<String>,
    },
    /// The medium at this index among the media of the message.
    Media(usize),
    /// A part that has no field in the message, as received.
    Other(Value),
}

/// A [`StoredPart`] with the data that is sent back with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SignedPart {
    pub(crate) part: StoredPart,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) signature: Option<String>,
}

/// The parts of a reply, stored in its message.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct StoredParts(pub(crate) Vec<SignedPart>);

impl SignedPart {
    pub(crate) fn new(part: StoredPart, signature: Option<String>) -> Self {
        Self { part, signature }
    }

    /// Returns `true` if the part at `place` is implied by the message.
    fn is_implied(&self, place: usize) -> bool {
        let is_plain = match &self.part {
            StoredPart::Text(..) => place == 0,
            StoredPart::Call { id, sent_id } => sent_id.as_ref() == Some(id),
            _ => false,
        };
        is_plain && self.signature.is_none()
    }
}

impl StoredParts {
    /// Returns the parts that this adapter stored in `reply` under the key `field`. `None` if there
    /// are none, if they come from another server, or if the text of the message was changed.
    pub(crate) fn of(reply: &AssistantMessage, field: &str, origin: &Origin) -> Option<Self> {
        let data = origin.data_for(reply, DATA_KEY)?.get(field)?;
        let parts = Self(Vec::deserialize(data).ok()?);
        parts.describes(reply).then_some(parts)
    }

    /// Stores the parts in `reply`, unless the message implies them: a text, followed by calls, and
    /// no signatures.
    pub(crate) fn store(self, reply: &mut AssistantMessage, field: &str, origin: &Origin) {
        if self.0.iter().enumerate().all(|(place, it)| it.is_implied(place)) {
            return;
        }
        let Ok(parts) = serde_json::to_value(self.0) else { return };
        let data = Map::from_iter([(field.to_owned(), parts)]);
        reply.provider_data.insert(DATA_KEY, origin.add_to(data));
    }

    /// Returns `true` if the text, the reasoning and the calls of `reply` are those of the parts.
    fn describes(&self, reply: &AssistantMessage) -> bool {
        let (text, reasoning) = (text_of(reply), reply.reasoning.as_deref().unwrap_or_default());
        let (mut text_end, mut reasoning_end, mut calls, mut media) = (0, 0, 0, 0);
        for stored in &self.0 {
            match &stored.part {
                StoredPart::Text(_, end) => text_end = *end,
                StoredPart::Thought(_, end) => reasoning_end = *end,
                StoredPart::Call { id, .. } if reply.tool_calls.iter().any(|call| call.id == *id) => {
                    calls += 1;
                }
                StoredPart::Call { .. } => return false,
                StoredPart::Media(_) => media += 1,
                StoredPart::Other(_) => {}
            }
        }
        text_end == text.len()
            && reasoning_end == reasoning.len()
            && calls == reply.tool_calls.len()
            && media == media_of(reply).count()
    }
}

/// Returns the text of the message without descriptions of media. Texts are joined with line breaks;
/// a reply of this adapter has only one.
pub(super) fn text_of(reply: &AssistantMessage) -> String {
    let texts = reply.content.iter().filter_map(|piece| match piece {
        Content::Text { text } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Returns the media of the message.
pub(super) fn media_of(reply: &AssistantMessage) -> impl Iterator<Item = &Content> {
    reply.content.iter().filter(|piece| !matches!(piece, Content::Text { .. }))
}

/// Returns the parts of a reply of another model or server: its text or its refusal, its media, and
/// its calls.
pub(super) fn implied_parts(reply: &AssistantMessage, text_length: usize) -> StoredParts {
    let text = (text_length > 0).then_some(StoredPart::Text(0, text_length));
    let media = (0..media_of(reply).count()).map(StoredPart::Media);
    let call = |call: &ToolCall| StoredPart::Call { id: call.id.clone(), sent_id: Some(call.id.clone()) };
    let calls = reply.tool_calls.iter().map(call);
    let parts = text.into_iter().chain(media).chain(calls);
    StoredParts(parts.map(|part| SignedPart::new(part, None)).collect())
}
