use std::{collections::HashMap, sync::Arc};

use haft_core::{
    Message, ToolCall, ToolResult,
    content::Content,
    message::{AssistantMessage, MessageBody},
    model::later_system_text,
};
use serde::{Serialize, Serializer, ser::SerializeSeq as _};
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

use super::{
    EncodingOptions, WireApi, generate_content, interactions,
    media::{encode_content, text_part},
    stored::{StoredPart, StoredParts, implied_parts, text_of},
};

/// The messages of a request, encoded for one of the APIs. The JSON text of each message is cached
/// in the message.
///
/// The serialized form is the field `contents` of `generateContent`, or the field `input` of the
/// Interactions API.
pub(crate) struct Conversation {
    api: WireApi,
    messages: Vec<Arc<EncodedMessage>>,
    /// The index of the first message of the current turn: the last input of the user.
    turn_start: usize,
}

/// The encoded form of one message, cached in the message.
struct EncodedMessage {
    options: Arc<EncodingOptions>,
    role: Role,
    /// The parts of the message, or its steps in the Interactions API.
    parts: Vec<Box<RawValue>>,
    /// Another form of the first call, with a fixed signature, and its position in `parts`. `None`
    /// if the call has a signature, or needs none.
    unsigned_call: Option<(usize, Vec<Box<RawValue>>)>,
    /// The ids of the calls, and the ids that are sent for them.
    sent_ids: Vec<(String, Option<String>)>,
    /// The id that is sent with the result. `None` if it has none, or if the message is no result.
    result_id: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    User,
    Model,
    Result,
}

/// The parts or steps of a reply, before they become JSON text.
pub(super) struct EncodedReply {
    pub(super) parts: Vec<Box<RawValue>>,
    /// The position of the first call, and what is sent in its place if it needs a signature.
    /// `None` if the reply has no call, or if the call has a signature.
    pub(super) unsigned_call: Option<(usize, Vec<Box<RawValue>>)>,
}

/// A reply with its parts in order.
pub(super) struct ReplyParts<'a> {
    pub(super) message: &'a AssistantMessage,
    pub(super) text: String,
    pub(super) parts: StoredParts,
}

impl Conversation {
    pub(crate) fn new<'a>(
        messages: impl IntoIterator<Item = &'a Arc<Message>>,
        options: &Arc<EncodingOptions>,
    ) -> Self {
        let mut encoded = Vec::new();
        let mut turn_start = 0;
        // The ids of earlier calls, with their position in the reply and the id that is sent.
        let mut calls: HashMap<&'a str, (usize, Option<String>)> = HashMap::new();
        let mut results: Vec<(usize, Arc<EncodedMessage>)> = Vec::new();
        for message in messages {
            if let MessageBody::Tool(result) = message.body() {
                let known = calls.get(&*result.call_id).cloned();
                let (place, id) = known.unwrap_or_else(|| (usize::MAX, Some(result.call_id.clone())));
                results.push((place, EncodedMessage::of(message, options, id)));
                continue;
            }
            append_results(&mut encoded, &mut results);
            let message_form = EncodedMessage::of(message, options, None);
            if message_form.role == Role::User {
                turn_start = encoded.len();
            }
            for (place, call) in message.tool_calls().iter().enumerate() {
                let sent = message_form.sent_ids.iter().find(|(id, _)| *id == call.id);
                calls.insert(&call.id, (place, sent.and_then(|(_, sent)| sent.clone())));
            }
            encoded.push(message_form);
        }
        append_results(&mut encoded, &mut results);
        Self { api: options.api, messages: encoded, turn_start }
    }

    /// Returns the parts of each message with its role. In the current turn, the first call of a
    /// reply has a signature.
    fn parts(&self) -> impl Iterator<Item = (Role, Vec<&RawValue>)> {
        self.messages.iter().enumerate().map(|(index, message)| {
            let signed = message.unsigned_call.as_ref().filter(|_| index >= self.turn_start);
            let parts = match signed {
                None => message.parts.iter().map(|part| &**part).collect(),
                Some((place, signed)) => {
                    let (before, rest) = message.parts.split_at_checked(*place).unwrap_or_default();
                    let parts = before.iter().chain(signed).chain(rest.iter().skip(1));
                    parts.map(|part| &**part).collect()
                }
            };
            (message.role, parts)
        })
    }
}

/// Appends `results`, the results of one reply, to `encoded` in the order of their calls.
fn append_results(encoded: &mut Vec<Arc<EncodedMessage>>, results: &mut Vec<(usize, Arc<EncodedMessage>)>) {
    results.sort_by_key(|(place, _)| *place);
    encoded.extend(results.drain(..).map(|(_, result)| result));
}

impl Serialize for Conversation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.api == WireApi::Interactions {
            return serializer.collect_seq(self.parts().flat_map(|(_, steps)| steps));
        }
        let mut contents: Vec<WireContent<'_>> = Vec::new();
        for (role, parts) in self.parts().filter(|(_, parts)| !parts.is_empty()) {
            let role = if role == Role::Model { "model" } else { "user" };
            match contents.last_mut().filter(|last| last.role == role) {
                Some(last) => last.parts.extend(parts),
                None => contents.push(WireContent { role, parts }),
            }
        }
        let mut list = serializer.serialize_seq(Some(contents.len()))?;
        contents.iter().try_for_each(|content| list.serialize_element(content))?;
        list.end()
    }
}

/// A content of `generateContent`: the parts of adjacent messages with the same role.
#[derive(Serialize)]
struct WireContent<'a> {
    role: &'static str,
    parts: Vec<&'a RawValue>,
}

impl EncodedMessage {
    /// Returns the encoded form of `message`. `result_id` is the id that is sent if the message is a
    /// result.
    fn of(message: &Message, options: &Arc<EncodingOptions>, result_id: Option<String>) -> Arc<Self> {
        let cached = message.memoize(|message| Self::new(message, options, result_id.clone()));
        // Do not use the cached encoding if another model created it with different options.
        if cached.result_id == result_id && cached.options == *options {
            cached
        } else {
            Arc::new(Self::new(message, options, result_id))
        }
    }

    fn new(message: &Message, options: &Arc<EncodingOptions>, result_id: Option<String>) -> Self {
        let user = |content: &[Content]| (Role::User, user_parts(encode_content(content, options), options));
        let (mut unsigned_call, mut sent_ids) = (None, Vec::new());
        let (role, parts) = match message.body() {
            MessageBody::System { .. } => {
                let text = text_part(&later_system_text(&message.text()), options);
                (Role::User, user_parts(vec![text], options))
            }
            MessageBody::User { content } => user(content),
            MessageBody::Tool(result) => {
                (Role::Result, raw([encode_result(result, result_id.as_deref(), options)]))
            }
            MessageBody::Assistant(reply) => {
                let reply = ReplyParts::new(reply, options);
                sent_ids = reply.sent_ids();
                let encoded = match options.api {
                    WireApi::GenerateContent => generate_content::encode_reply(&reply, options),
                    WireApi::Interactions => interactions::encode_reply(&reply, options),
                };
                unsigned_call = encoded.unsigned_call.filter(|_| options.needs_signatures);
                (Role::Model, encoded.parts)
            }
        };
        Self { options: Arc::clone(options), role, parts, unsigned_call, sent_ids, result_id }
    }
}

/// Encodes the content of a user message as the parts of a content, or as a step.
fn user_parts(content: Vec<Value>, options: &EncodingOptions) -> Vec<Box<RawValue>> {
    match options.api {
        WireApi::GenerateContent => raw(content),
        WireApi::Interactions if content.is_empty() => Vec::new(),
        WireApi::Interactions => raw([interactions::user_input(content)]),
    }
}

fn encode_result(result: &ToolResult, id: Option<&str>, options: &EncodingOptions) -> Value {
    match options.api {
        WireApi::GenerateContent => generate_content::encode_result(result, id, options),
        WireApi::Interactions => interactions::encode_result(result, id, options),
    }
}

/// Converts `values` to JSON texts. Serialization cannot fail, because the values contain only
/// strings and JSON.
pub(super) fn raw<T: Serialize>(values: impl IntoIterator<Item = T>) -> Vec<Box<RawValue>> {
    values.into_iter().filter_map(|value| to_raw_value(&value).ok()).collect()
}

impl<'a> ReplyParts<'a> {
    fn new(message: &'a AssistantMessage, options: &EncodingOptions) -> Self {
        let text = text_of(message);
        if let Some(parts) = StoredParts::of(message, options.api.stored_field(), &options.origin) {
            return Self { message, text, parts };
        }
        let text = if text.is_empty() { message.refusal.clone().unwrap_or_default() } else { text };
        let parts = implied_parts(message, text.len());
        Self { message, text, parts }
    }

    /// Returns the id of each call, and the id that is sent for it.
    fn sent_ids(&self) -> Vec<(String, Option<String>)> {
        let ids = self.parts.0.iter().filter_map(|stored| match &stored.part {
            StoredPart::Call { id, sent_id } => Some((id.clone(), sent_id.clone())),
            _ => None,
        });
        ids.collect()
    }

    pub(super) fn text(&self, start: usize, end: usize) -> &str {
        self.text.get(start..end).unwrap_or_default()
    }

    pub(super) fn thought(&self, start: usize, end: usize) -> &str {
        self.message.reasoning.as_deref().and_then(|thought| thought.get(start..end)).unwrap_or_default()
    }

    pub(super) fn call(&self, id: &str) -> Option<&'a ToolCall> {
        self.message.tool_calls.iter().find(|call| call.id == id)
    }

    pub(super) fn medium(&self, index: usize) -> Option<&'a Content> {
        super::stored::media_of(self.message).nth(index)
    }
}

/// Returns the arguments of `call` as a JSON object.
pub(super) fn arguments(call: &ToolCall) -> Option<Box<RawValue>> {
    RawValue::from_string(call.arguments_object().into_owned()).ok()
}
