//! Conversations that the server stores, and the messages that are new to it.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use haft_core::{
    Message,
    message::{AssistantMessage, MessageBody},
};
use serde_json::Value;
use serde_json::value::RawValue;

use super::Input;
use crate::{format::EncodingOptions, reply::ITEMS_ADAPTER};

/// Data of a message for stored conversations.
pub(super) struct Kept {
    /// Fingerprint of the message.
    digest: u64,
    stored: Option<Stored>,
}

/// A stored response.
struct Stored {
    id: String,
    /// Fingerprint of the conversation before it.
    after: String,
}

impl Input {
    /// Fingerprint of the conversation.
    pub(crate) fn digest(&self) -> String {
        let mut digests = Digests::default();
        self.0.iter().for_each(|message| digests.add(&message.kept));
        digests.text()
    }

    /// The last stored response whose conversation is the same as here, and the messages after it.
    ///
    /// A conversation that was shortened, summarised or changed since does not match.
    pub(crate) fn since_stored(&self) -> Option<(&str, Self)> {
        let mut digests = Digests::default();
        let mut last = None;
        for (place, message) in self.0.iter().enumerate() {
            let stored = message.kept.stored.as_ref().filter(|stored| stored.after == digests.text());
            last = stored.map(|stored| (stored.id.as_str(), place)).or(last);
            digests.add(&message.kept);
        }
        let (id, place) = last?;
        let rest = self.0.get(place + 1..).filter(|rest| !rest.is_empty())?;
        Some((id, Self(rest.to_vec())))
    }
}

#[derive(Default)]
struct Digests(DefaultHasher);

impl Digests {
    fn add(&mut self, message: &Kept) {
        message.digest.hash(&mut self.0);
    }

    fn text(&self) -> String {
        format!("{:016x}", self.0.finish())
    }
}

impl Kept {
    pub(super) fn of(message: &Message, items: &[Box<RawValue>], encoding: &EncodingOptions) -> Self {
        let mut hasher = DefaultHasher::new();
        items.iter().for_each(|item| item.get().hash(&mut hasher));
        let stored = match message.body() {
            MessageBody::Assistant(said) => Stored::of(said, encoding),
            _ => None,
        };
        Self { digest: hasher.finish(), stored }
    }
}

impl Stored {
    /// The stored response of a reply, unless its calls were changed: the server would wait for
    /// results of the others.
    fn of(said: &AssistantMessage, encoding: &EncodingOptions) -> Option<Self> {
        let stored = encoding.origin.own(said, ITEMS_ADAPTER)?.get("stored")?;
        let text = |key| stored.get(key)?.as_str().map(str::to_owned);
        let calls = stored.get("calls")?.as_array()?.iter().filter_map(Value::as_str);
        let is_same = calls.eq(said.tool_calls.iter().map(|call| call.id.as_str()));
        is_same.then_some(Self { id: text("id")?, after: text("after")? })
    }
}
