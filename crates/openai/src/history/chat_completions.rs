//! Histories of the Chat Completions API.

use std::{borrow::Borrow, sync::Arc};

use haft_core::{
    Message,
    content::Content,
    message::{AssistantMessage, MessageBody},
    text::OPEN_TAG,
};
use serde_json::{Map, Value, json};

use haft_core::model::adapter::history::{PartReader, decode_media, remote_image_url};

use super::{
    History, HistoryError, NAME_KEY, Reader,
    content::{as_document, document, image_from_url, write_content},
    error, list_in, required, text_of,
};
use crate::{
    decode_message, encode_message, encode_messages,
    format::{Medium, UNNAMED_DOCUMENT},
};

const PARTS: PartReader = PartReader {
    read: read_part,
    fields: &[
        "type",
        "text",
        "image_url/url",
        "input_audio/data",
        "input_audio/format",
        "file/file_data",
        "file/filename",
    ],
};

/// The supported fields of system, user and tool messages.
const MESSAGE_FIELDS: [&str; 4] = ["role", "name", "content", "tool_call_id"];

/// The supported fields of a call.
const CALL_FIELDS: [&str; 6] =
    ["id", "type", "index", "function/name", "function/arguments", "extra_content"];

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
/// supported. Calls of custom tools, which have free text as input, are omitted with their results.
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
    Ok(reader.0.finish())
}

/// Writes `messages` as the `messages` of a Chat Completions request.
///
/// The text of a failed call is its content, because the format has no error flag. Media of tool
/// results follow in a user message.
pub fn to_chat_completions<M: Borrow<Arc<Message>>>(messages: impl IntoIterator<Item = M>) -> Vec<Value> {
    let messages: Vec<_> = messages.into_iter().map(|message| Arc::clone(message.borrow())).collect();
    let is_result = |message: &Arc<Message>| matches!(message.body(), MessageBody::Tool(_));
    let groups = messages.chunk_by(|one, next| is_result(one) && is_result(next));
    groups.flat_map(write_group).collect()
}

impl Reader {
    fn read_chat_message(&mut self, message: &Value, path: &str) -> Result<(), HistoryError> {
        let name = text_of(message, "name");
        let content_path = format!("{path}/content");
        let content = message.get("content");
        let role = required(message, "role", path)?;
        if role == "tool" && text_of(message, "tool_call_id").is_some_and(|id| self.0.has_omitted_call(id)) {
            self.0.omit(path, "the result belongs to an omitted call");
            return Ok(());
        }
        if role != "assistant" {
            self.0.omit_unknown_fields(path, message, &MESSAGE_FIELDS);
        }
        let body = match role {
            "system" | "developer" => {
                MessageBody::System { content: self.0.read_content(content, &content_path, &PARTS)? }
            }
            "user" => MessageBody::User { content: self.0.read_content(content, &content_path, &PARTS)? },
            "assistant" => MessageBody::Assistant(self.read_reply(message, path)?),
            "tool" => {
                let content = self.0.read_content(content, &content_path, &PARTS)?;
                self.0.push_result(required(message, "tool_call_id", path)?, name, content, false);
                return Ok(());
            }
            "function" => {
                let content = self.0.read_content(content, &content_path, &PARTS)?;
                let name = required(message, "name", path)?;
                let id = self.0.messages().iter().rev().flat_map(Message::tool_calls);
                let id = id.into_iter().find(|call| call.name == name).map(|call| call.id.clone());
                self.0.push_result(&id.unwrap_or_default(), Some(name), content, false);
                return Ok(());
            }
            other => return error(path, format_args!("the role `{other}` is unknown")),
        };
        let named = name.map(|name| Map::from_iter([(NAME_KEY.to_owned(), name.into())]));
        self.0.push(Message::new(body).with_metadata(named.unwrap_or_default()));
        Ok(())
    }

    fn read_reply(&mut self, message: &Value, path: &str) -> Result<AssistantMessage, HistoryError> {
        let mut calls = Vec::new();
        for (index, call) in
            message.get("tool_calls").and_then(Value::as_array).into_iter().flatten().enumerate()
        {
            let path = format!("{path}/tool_calls/{index}");
            match (call.get("function").filter(|it| !it.is_null()), text_of(call, "type")) {
                (Some(function), _) => drop(required(function, "name", &path)?),
                (None, None | Some("function")) => return error(path, "expected an object with `function`"),
                (None, Some(kind)) => {
                    self.0.omit(path, format_args!("the call `{kind}` is not supported"));
                    if let Some(id) = text_of(call, "id") {
                        self.0.omit_call(id.to_owned());
                    }
                    continue;
                }
            }
            self.0.omit_unknown_fields(&path, call, &CALL_FIELDS);
            calls.push(call.clone());
        }
        self.0.omit_unknown_fields(path, message, &ASSISTANT_FIELDS);
        let mut message = message.clone();
        if !calls.is_empty() || message["tool_calls"].is_array() {
            message["tool_calls"] = calls.into();
        }
        let mut pieces = None;
        if let Some(Value::Array(parts)) = message.get("content") {
            let refusal = parts.iter().find_map(|part| text_of(part, "refusal")).map(str::to_owned);
            let has_thinking = parts.iter().any(|part| part.get("thinking").is_some());
            let texts: Vec<_> = parts.iter().filter(|part| part.get("refusal").is_none()).cloned().collect();
            if !has_thinking {
                let content = Value::Array(texts);
                pieces = Some(self.0.read_content(Some(&content), &format!("{path}/content"), &PARTS)?);
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
        let mut reply = decoded.or_else(|problem| error(path, problem))?;
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
            inner("input_audio", "data").map(|data| decode_media(data, &media_type)).transpose()
        }
        Some("file") => {
            inner("file", "file_data").map(|data| document(data, inner("file", "filename"))).transpose()
        }
        _ => Ok(None),
    }
}

/// Writes `group`, adjacent results or another message.
fn write_group(group: &[Arc<Message>]) -> Vec<Value> {
    let Some(message) = group.first() else { return Vec::new() };
    let mut written = match message.body() {
        MessageBody::System { content } => {
            json!({"role": "system", "content": write_content(content, write_part)})
        }
        MessageBody::User { content } => {
            json!({"role": "user", "content": write_content(content, write_part)})
        }
        MessageBody::Assistant(reply) => write_reply(message, reply),
        MessageBody::Tool(_) => return encode_messages(group),
    };
    if let Some(name) = message.metadata_value(NAME_KEY) {
        written["name"] = name.clone();
    }
    vec![written]
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
            json!({"type": "image_url", "image_url": {"url": Medium::data_url(data, media_type)}})
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
            json!({"type": "file", "file": {"filename": name, "file_data": Medium::data_url(data, media_type)}})
        }
        (other, None) => json!({"type": "text", "text": other.as_text()}),
    }
}
