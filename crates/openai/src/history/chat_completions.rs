//! Histories of the Chat Completions API.

use std::{borrow::Borrow, sync::Arc};

use haft_core::{
    Message,
    content::Content,
    message::{AssistantMessage, MessageBody},
    text::OPEN_TAG,
};
use serde_json::{Map, Value, json};

use super::{
    History, HistoryError, NAME_KEY, Reader,
    content::{
        UNNAMED_DOCUMENT, as_document, data_url, document, image_from_url, media, remote_image_url,
        write_content,
    },
    error, list_in, required, text_of,
};
use crate::{decode_message, encode_message, encode_messages};

/// The supported fields of an assistant message.
const ASSISTANT_FIELDS: [&str; 11] = [
    "role",
    "name",
    "content",
    "refusal",
    "tool_calls",
    "function_call",
    "reasoning",
    "reasoning_content",
    "reasoning_details",
    "thinking_blocks",
    "extra_content",
];

/// Reads `json`, the `messages` of a Chat Completions request or the whole request.
///
/// A `developer` message becomes a system message. The `name` of a message is its metadata
/// [`NAME_KEY`]. The messages `function` and the field `function_call` of older versions are
/// supported.
///
/// # Errors
///
/// Fails with the path of the first message or call that is malformed, such as
/// ``messages/3/tool_calls/0: the string `name` is missing``.
pub fn from_chat_completions(json: &Value) -> Result<History, HistoryError> {
    let mut reader = Reader::default();
    for (index, message) in list_in(json, "messages")?.iter().enumerate() {
        reader.read_chat_message(message, &format!("messages/{index}"))?;
    }
    Ok(reader.history)
}

/// Writes `messages` as the `messages` of a Chat Completions request.
///
/// The text of a failed call is its content, because the format has no error flag. Media of tool
/// results follow in a user message.
pub fn to_chat_completions<M: Borrow<Arc<Message>>>(messages: impl IntoIterator<Item = M>) -> Vec<Value> {
    let messages: Vec<_> = messages.into_iter().map(|message| Arc::clone(message.borrow())).collect();
    let is_result = |message: &Arc<Message>| matches!(message.body(), MessageBody::Tool(_));
    let groups = messages.chunk_by(|one, next| is_result(one) && is_result(next));
    groups
        .flat_map(|group| match group {
            [message] if !is_result(message) => vec![write_message(message)],
            results => encode_messages(results),
        })
        .collect()
}

impl Reader {
    fn read_chat_message(&mut self, message: &Value, place: &str) -> Result<(), HistoryError> {
        let name = text_of(message, "name");
        let content_place = format!("{place}/content");
        let content = message.get("content");
        let body = match required(message, "role", place)? {
            "system" | "developer" => {
                MessageBody::System { content: self.read_content(content, &content_place, read_part)? }
            }
            "user" => MessageBody::User { content: self.read_content(content, &content_place, read_part)? },
            "assistant" => MessageBody::Assistant(self.read_reply(message, place)?),
            "tool" => {
                let content = self.read_content(content, &content_place, read_part)?;
                self.push_result(required(message, "tool_call_id", place)?, name, content, false);
                return Ok(());
            }
            "function" => {
                let content = self.read_content(content, &content_place, read_part)?;
                let name = required(message, "name", place)?;
                let id = self.history.messages.iter().rev().flat_map(Message::tool_calls);
                let id = id.into_iter().find(|call| call.name == name).map(|call| call.id.clone());
                self.push_result(&id.unwrap_or_default(), Some(name), content, false);
                return Ok(());
            }
            other => return error(place, format_args!("the role `{other}` is unknown")),
        };
        let named = name.map(|name| Map::from_iter([(NAME_KEY.to_owned(), name.into())]));
        self.push(Message::new(body).with_metadata(named.unwrap_or_default()));
        Ok(())
    }

    fn read_reply(&mut self, message: &Value, place: &str) -> Result<AssistantMessage, HistoryError> {
        for (index, call) in
            message.get("tool_calls").and_then(Value::as_array).into_iter().flatten().enumerate()
        {
            let place = format!("{place}/tool_calls/{index}");
            let Some(function) = call.get("function") else {
                return error(place, "expected an object with `function`");
            };
            required(function, "name", &place)?;
        }
        self.omit_unknown_fields(place, message, &ASSISTANT_FIELDS);
        let mut message = message.clone();
        let mut pieces = None;
        if let Some(Value::Array(parts)) = message.get("content") {
            let refusal = parts.iter().find_map(|part| text_of(part, "refusal")).map(str::to_owned);
            let has_thinking = parts.iter().any(|part| part.get("thinking").is_some());
            let texts: Vec<_> = parts.iter().filter(|part| part.get("refusal").is_none()).cloned().collect();
            if !has_thinking {
                let content = Value::Array(texts);
                pieces = Some(self.read_content(Some(&content), &format!("{place}/content"), read_part)?);
                message["content"] = Value::Null;
            }
            if let Some(refusal) = refusal {
                message["refusal"] = refusal.into();
            }
        }
        // The decoder moves a leading `<think>` block of a text to the reasoning.
        if let Some(text) =
            text_of(&message, "content").filter(|text| !text.trim_start().starts_with(OPEN_TAG))
        {
            pieces =
                Some(Some(text).filter(|text| !text.is_empty()).map(Content::text).into_iter().collect());
            message["content"] = Value::Null;
        }
        let decoded = decode_message(&message);
        let mut reply = decoded.or_else(|problem| error(place, problem))?;
        reply.content = pieces.unwrap_or(reply.content);
        Ok(reply)
    }
}

/// Reads a part of the content of a message.
fn read_part(part: &Value) -> Result<Option<Content>, String> {
    let inner = |key: &str, field: &str| part.get(key)?.get(field)?.as_str();
    match text_of(part, "type") {
        Some("text" | "input_text" | "output_text") => Ok(text_of(part, "text").map(Content::text)),
        Some("image_url") => {
            // Some servers accept the URL without the object around it.
            let url = inner("image_url", "url").or_else(|| text_of(part, "image_url"));
            url.map(image_from_url).transpose()
        }
        Some("input_audio") => {
            let media_type = match inner("input_audio", "format") {
                Some("mp3") => "audio/mpeg".to_owned(),
                format => format!("audio/{}", format.unwrap_or("wav")),
            };
            inner("input_audio", "data").map(|data| media(data, &media_type)).transpose()
        }
        Some("file") => {
            inner("file", "file_data").map(|data| document(data, inner("file", "filename"))).transpose()
        }
        _ => Ok(None),
    }
}

fn write_message(message: &Message) -> Value {
    let mut written = match message.body() {
        MessageBody::System { content } => {
            json!({"role": "system", "content": write_content(content, write_part)})
        }
        MessageBody::User { content } => {
            json!({"role": "user", "content": write_content(content, write_part)})
        }
        MessageBody::Assistant(reply) => write_reply(message, reply),
        MessageBody::Tool(_) => encode_message(message),
    };
    if let Some(name) = message.metadata_value(NAME_KEY) {
        written["name"] = name.clone();
    }
    written
}

/// Writes `reply`. Unlike a request, a history contains the reasoning as text, and the names and
/// arguments of calls as received.
fn write_reply(message: &Message, reply: &AssistantMessage) -> Value {
    let mut written = encode_message(message);
    if !written["content"].is_array() {
        written["content"] = match reply.content.as_slice() {
            [] => Value::Null,
            content => write_content(content, write_part),
        };
        if let Some(reasoning) = &reply.reasoning {
            written["reasoning_content"] = json!(reasoning);
        }
    }
    if let Some(refusal) = &reply.refusal {
        written["refusal"] = json!(refusal);
    }
    for (index, call) in reply.tool_calls.iter().enumerate() {
        written["tool_calls"][index]["function"]["name"] = json!(call.name);
        written["tool_calls"][index]["function"]["arguments"] = json!(&*call.arguments);
    }
    written
}

fn write_part(piece: &Content) -> Value {
    if let Some(url) = remote_image_url(piece) {
        return json!({"type": "image_url", "image_url": {"url": url}});
    }
    match (piece, as_document(piece)) {
        (Content::Image { data, media_type }, _) => {
            json!({"type": "image_url", "image_url": {"url": data_url(data, media_type)}})
        }
        (Content::Audio { data, media_type }, _) => {
            let format = match media_type.strip_prefix("audio/").unwrap_or(media_type) {
                "mpeg" => "mp3",
                format => format,
            };
            json!({"type": "input_audio", "input_audio": {"data": data.to_base64(), "format": format}})
        }
        (_, Some((data, media_type, name))) => {
            let name = name.unwrap_or(UNNAMED_DOCUMENT);
            json!({"type": "file", "file": {"filename": name, "file_data": data_url(data, media_type)}})
        }
        (other, None) => json!({"type": "text", "text": other.as_text()}),
    }
}
