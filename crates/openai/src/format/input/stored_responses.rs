//! Detection of conversations that the server has stored, so that only new messages are sent.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use haft_core::{
    Message,
    message::{AssistantMessage, MessageBody},
};
use serde_json::Value;
use serde_json::value::RawValue;

use super::Input;
use crate::{format::EncodingOptions, reply::RESPONSES_DATA_KEY};

/// The digest of a message, and the stored response that the message came from, if any.
pub(super) struct MessageDigest {
    /// The hash of the encoded items of the message.
    hash: u64,
    response: Option<StoredResponse>,
}

/// A response that the server has stored.
struct StoredResponse {
    id: String,
    /// The digest of the messages that precede this response in the conversation.
    preceding_digest: String,
}

impl Input {
    /// Returns a single digest of all messages in this input.
    pub(crate) fn digest(&self) -> String {
        let mut digests = DigestHasher::default();
        self.0.iter().for_each(|message| digests.add(&message.digest));
        digests.to_hex()
    }

    /// Returns the id of the last stored response that still matches the conversation, and the
    /// messages after that response. `None` if no response matches, or if no messages follow it.
    ///
    /// A response does not match if the messages that precede it were shortened, summarized or
    /// changed after it was stored.
    pub(crate) fn after_stored_response(&self) -> Option<(&str, Self)> {
        let mut digests = DigestHasher::default();
        let mut last = None;
        for (place, message) in self.0.iter().enumerate() {
            let stored =
                message.digest.response.as_ref().filter(|stored| stored.preceding_digest == digests.to_hex());
            last = stored.map(|stored| (stored.id.as_str(), place)).or(last);
            digests.add(&message.digest);
        }
        let (id, place) = last?;
        let rest = self.0.get(place + 1..).filter(|rest| !rest.is_empty())?;
        Some((id, Self(rest.to_vec())))
    }
}

#[derive(Default)]
struct DigestHasher(DefaultHasher);

impl DigestHasher {
    fn add(&mut self, message: &MessageDigest) {
        message.hash.hash(&mut self.0);
    }

    fn to_hex(&self) -> String {
        format!("{:016x}", self.0.finish())
    }
}

impl MessageDigest {
    pub(super) fn of(message: &Message, items: &[Box<RawValue>], encoding: &EncodingOptions) -> Self {
        let mut hasher = DefaultHasher::new();
        items.iter().for_each(|item| item.get().hash(&mut hasher));
        let response = match message.body() {
            MessageBody::Assistant(reply) => StoredResponse::of(reply, encoding),
            _ => None,
        };
        Self { hash: hasher.finish(), response }
    }
}

impl StoredResponse {
    /// Returns the stored response that `reply` came from. `None` if `reply` did not come from a
    /// stored response. Also `None` if the calls in `reply` were changed, because the server
    /// requires results for the original calls.
    fn of(reply: &AssistantMessage, encoding: &EncodingOptions) -> Option<Self> {
        let stored = encoding.origin.data_for(reply, RESPONSES_DATA_KEY)?.get("stored")?;
        let text = |key| stored.get(key)?.as_str().map(str::to_owned);
        let calls = stored.get("calls")?.as_array()?.iter().filter_map(Value::as_str);
        let is_same = calls.eq(reply.tool_calls.iter().map(|call| call.id.as_str()));
        is_same.then_some(Self { id: text("id")?, preceding_digest: text("after")? })
    }
}
