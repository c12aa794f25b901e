use haft_core::{message::AssistantMessage, model::adapter::Origin};
use serde_json::Value;

use crate::format::{SignedPart, StoredPart, StoredParts};

/// The parts of a reply in the order in which they arrived.
#[derive(Debug, Default)]
pub(super) struct PartLog {
    parts: Vec<LoggedPart>,
    calls: usize,
    media: usize,
}

#[derive(Debug)]
enum LoggedPart {
    Complete(SignedPart),
    /// The call at this position in the reply. Its id is known at the end.
    Call {
        position: usize,
        sent_id: SentId,
        signature: Option<String>,
    },
}

/// The id of a call as it is sent back.
#[derive(Debug)]
pub(super) enum SentId {
    /// The id that the server sent, or none.
    Received(Option<String>),
    /// The id in the message, because the API requires an id.
    Own,
}

impl PartLog {
    /// Adds a range of the text. Texts without a signature are joined, because a stream splits a
    /// text.
    pub(super) fn add_text(&mut self, start: usize, end: usize, signature: Option<String>) {
        self.add_range(StoredPart::Text(start, end), signature);
    }

    /// Adds a range of the reasoning.
    pub(super) fn add_thought(&mut self, start: usize, end: usize, signature: Option<String>) {
        self.add_range(StoredPart::Thought(start, end), signature);
    }

    fn add_range(&mut self, part: StoredPart, signature: Option<String>) {
        let last = match self.parts.last_mut() {
            Some(LoggedPart::Complete(last)) if last.signature.is_none() && signature.is_none() => Some(last),
            _ => None,
        };
        match (last.map(|last| &mut last.part), &part) {
            (Some(StoredPart::Text(_, end)), StoredPart::Text(_, new))
            | (Some(StoredPart::Thought(_, end)), StoredPart::Thought(_, new)) => *end = *new,
            (_, StoredPart::Text(start, end) | StoredPart::Thought(start, end))
                if start == end && signature.is_none() => {}
            _ => self.parts.push(LoggedPart::Complete(SignedPart::new(part, signature))),
        }
    }

    /// Adds the next call. `sent_id` is its id as the server sent it.
    pub(super) fn add_call(&mut self, sent_id: SentId, signature: Option<String>) {
        self.parts.push(LoggedPart::Call { position: self.calls, sent_id, signature });
        self.calls += 1;
    }

    /// Adds the next medium.
    pub(super) fn add_media(&mut self, signature: Option<String>) {
        let part = SignedPart::new(StoredPart::Media(self.media), signature);
        self.parts.push(LoggedPart::Complete(part));
        self.media += 1;
    }

    /// Adds `part`, which has no field in a message.
    pub(super) fn add_other(&mut self, part: Value) {
        self.parts.push(LoggedPart::Complete(SignedPart::new(StoredPart::Other(part), None)));
    }

    /// Stores the parts in `reply`, the complete message.
    pub(super) fn store(self, reply: &mut AssistantMessage, field: &str, origin: &Origin) {
        let complete = |part| match part {
            LoggedPart::Complete(part) => Some(part),
            LoggedPart::Call { position, sent_id, signature } => {
                let id = reply.tool_calls.get(position)?.id.clone();
                let sent_id = match sent_id {
                    SentId::Received(id) => id,
                    SentId::Own => Some(id.clone()),
                };
                Some(SignedPart::new(StoredPart::Call { id, sent_id }, signature))
            }
        };
        let parts = StoredParts(self.parts.into_iter().filter_map(complete).collect());
        parts.store(reply, field, origin);
    }
}
