//! Histories of Anthropic's Messages API.

use std::{
    borrow::{Borrow, Cow},
    sync::Arc,
};

use haft_core::{
    Message, ToolName, ToolResult,
    content::{Content, ResourceBody},
    message::{AssistantMessage, MessageBody},
};
use serde_json::{Map, Value, json};

use super::{
    History, HistoryError, Reader,
    content::{PartReader, as_document, media, remote_image, write_content, write_result_content},
    error, list_in, required, text_of,
};
use crate::{
    anthropic::{decode_tool_call, is_supported_image, tool_result_block},
    format::{remote_image_url, valid_name},
};

const BLOCKS: PartReader = PartReader {
    read: read_block,
    fields: &["type", "text", "source/type", "source/media_type", "source/data", "source/url", "title"],
};

/// The key of the content blocks of a reply in its provider data.
const ANTHROPIC_DATA_KEY: &str = "anthropic";

/// The separator between two thoughts of a reply.
const THOUGHT_SEPARATOR: &str = "\n\n";

/// Reads `json`, the `messages` of a Messages request or the whole request with its `system`.
///
/// Each result in a user message becomes a tool message. A result with `is_error` is a failed call.
/// If a reply has blocks such as signed thinking, its original blocks are kept as provider data.
///
/// # Errors
///
/// Fails with the path of the first message or block that is malformed, such as
/// ``messages/1/content/0: the string `id` is missing``.
pub fn from_anthropic(json: &Value) -> Result<History, HistoryError> {
    let mut reader = Reader::default();
    let content = reader.read_content(json.get("system"), "system", &BLOCKS)?;
    if !content.is_empty() {
        reader.push(Message::new(MessageBody::System { content }));
    }
    for (index, message) in list_in(json, "messages")?.iter().enumerate() {
        let path = format!("messages/{index}");
        match required(message, "role", &path)? {
            "user" => reader.read_user(message, &path)?,
            "assistant" => {
                let reply = reader.read_blocks(message, &path)?;
                reader.push(Message::assistant(reply));
            }
            other => return error(path, format_args!("the role `{other}` is unknown")),
        }
    }
    Ok(reader.history)
}

/// Writes `messages` as an object with the `messages` and the `system` of a Messages request.
/// `system` contains all system messages, and is absent if there are none.
///
/// Results and the user message after them are one message, as the API requires. Reasoning is
/// written only if it came from this API, which rejects other reasoning.
///
/// Other data that the API rejects is changed: empty texts and messages are omitted, images and
/// documents in other formats are written as text, and call ids and tool names are converted to
/// valid ones.
pub fn to_anthropic<M: Borrow<Arc<Message>>>(messages: impl IntoIterator<Item = M>) -> Value {
    let (mut system, mut written) = (Vec::new(), Vec::<Value>::new());
    let mut follows_result = false;
    for message in messages {
        let message: &Arc<Message> = message.borrow();
        let (is_result, content) = match message.body() {
            MessageBody::System { content } => {
                system.extend(content.iter().cloned());
                continue;
            }
            MessageBody::Assistant(reply) => {
                let content = write_reply(reply);
                if content.as_array().is_none_or(|blocks| !blocks.is_empty()) {
                    follows_result = false;
                    written.push(json!({"role": "assistant", "content": content}));
                }
                continue;
            }
            MessageBody::User { content } => match write_blocks(content) {
                Some(content) => (false, content),
                None => continue,
            },
            MessageBody::Tool(result) => (true, json!([write_result(result)])),
        };
        match written.last_mut().and_then(|last| last["content"].as_array_mut()) {
            Some(blocks) if follows_result => match content {
                Value::Array(more) => blocks.extend(more),
                text => blocks.push(json!({"type": "text", "text": text})),
            },
            _ => written.push(json!({"role": "user", "content": content})),
        }
        follows_result = is_result;
    }
    let mut request = Map::new();
    if let Some(system) = write_blocks(&system) {
        request.insert("system".to_owned(), system);
    }
    request.insert("messages".to_owned(), Value::Array(written));
    Value::Object(request)
}

impl Reader {
    fn read_user(&mut self, message: &Value, path: &str) -> Result<(), HistoryError> {
        let path = format!("{path}/content");
        let Some(Value::Array(blocks)) = message.get("content") else {
            let content = self.read_content(message.get("content"), &path, &BLOCKS)?;
            self.push(Message::new(MessageBody::User { content }));
            return Ok(());
        };
        let mut user = Vec::new();
        for (index, block) in blocks.iter().enumerate() {
            let path = format!("{path}/{index}");
            if text_of(block, "type") == Some("tool_result") {
                let content = self.read_content(block.get("content"), &format!("{path}/content"), &BLOCKS)?;
                let is_error = block.get("is_error") == Some(&Value::Bool(true));
                self.push_result(required(block, "tool_use_id", &path)?, None, content, is_error);
                self.omit_unknown_fields(&path, block, &["type", "tool_use_id", "content", "is_error"]);
                continue;
            }
            user.extend(self.read_part(block, &path, &BLOCKS)?);
        }
        if !user.is_empty() || blocks.is_empty() {
            self.push(Message::new(MessageBody::User { content: user }));
        }
        Ok(())
    }

    /// Reads the content of a reply.
    fn read_blocks(&mut self, message: &Value, path: &str) -> Result<AssistantMessage, HistoryError> {
        let path = format!("{path}/content");
        let blocks = match message.get("content") {
            Some(Value::Array(blocks)) => blocks,
            other => {
                let content = self.read_content(other, &path, &BLOCKS)?;
                return Ok(AssistantMessage { content, ..AssistantMessage::default() });
            }
        };
        let mut reply = AssistantMessage::default();
        let mut thoughts = Vec::new();
        for (index, block) in blocks.iter().enumerate() {
            let path = format!("{path}/{index}");
            match text_of(block, "type") {
                Some("text") => reply.content.push(Content::text(required(block, "text", &path)?)),
                Some("thinking") => thoughts.push(required(block, "thinking", &path)?),
                Some("tool_use") => {
                    required(block, "id", &path)?;
                    required(block, "name", &path)?;
                    reply.tool_calls.push(decode_tool_call(block).or_else(|problem| error(&path, problem))?);
                }
                Some(_) => {}
                None => return error(path, "the string `type` is missing"),
            }
        }
        reply.reasoning = Some(thoughts.join(THOUGHT_SEPARATOR)).filter(|thought| !thought.is_empty());
        if canonical_blocks(&reply) != *blocks {
            reply.provider_data.insert(ANTHROPIC_DATA_KEY, json!({"content": blocks}));
        }
        Ok(reply)
    }
}

fn read_block(block: &Value) -> Result<Option<Content>, String> {
    let source = block.get("source");
    let field = |key| source.and_then(|source| text_of(source, key));
    let data = || field("data").ok_or("the string `source/data` is missing");
    match (text_of(block, "type"), field("type")) {
        (Some("text"), _) => Ok(text_of(block, "text").map(Content::text)),
        (Some("image"), Some("base64")) => {
            media(data()?, field("media_type").unwrap_or("image/png")).map(Some)
        }
        (Some("image"), Some("url")) => Ok(field("url").map(remote_image)),
        (Some("document"), Some("base64")) => {
            let piece = media(data()?, field("media_type").unwrap_or("application/pdf"))?;
            Ok(Some(match (piece, text_of(block, "title")) {
                (Content::Blob { data, media_type }, Some(title)) => Content::Resource {
                    uri: title.to_owned(),
                    media_type: Some(media_type),
                    body: ResourceBody::Blob(data),
                },
                (piece, _) => piece,
            }))
        }
        (Some("document"), Some("text")) => Ok(Some(Content::Resource {
            uri: text_of(block, "title").unwrap_or_default().to_owned(),
            media_type: field("media_type").map(str::to_owned),
            body: ResourceBody::Text(data()?.to_owned()),
        })),
        _ => Ok(None),
    }
}

fn write_block(piece: &Content) -> Value {
    if let Some(url) = remote_image_url(piece) {
        return json!({"type": "image", "source": {"type": "url", "url": url}});
    }
    let titled = |source: Value, title: Option<&str>| match title.filter(|title| !title.is_empty()) {
        Some(title) => json!({"type": "document", "source": source, "title": title}),
        None => json!({"type": "document", "source": source}),
    };
    match (piece, as_document(piece)) {
        (Content::Image { data, media_type }, _) if is_supported_image(piece) => {
            let source = json!({"type": "base64", "media_type": media_type, "data": data.to_base64()});
            json!({"type": "image", "source": source})
        }
        (_, Some((data, media_type @ "application/pdf", name))) => {
            titled(json!({"type": "base64", "media_type": media_type, "data": data.to_base64()}), name)
        }
        (Content::Resource { uri, body: ResourceBody::Text(text), .. }, None) if !text.trim().is_empty() => {
            // The API accepts no other media type for text.
            titled(json!({"type": "text", "media_type": "text/plain", "data": text}), Some(uri))
        }
        (other, _) => json!({"type": "text", "text": other.as_text()}),
    }
}

fn write_result(result: &ToolResult) -> Value {
    let content = match write_result_content(result, write_block) {
        Value::Array(blocks) => Value::Array(blocks.into_iter().filter(has_content).collect()),
        text => text,
    };
    tool_result_block(result, &valid_id(&result.call_id), content)
}

/// Writes `content` without empty texts, because the API rejects them. Returns `None` if nothing is
/// left.
fn write_blocks(content: &[Content]) -> Option<Value> {
    match write_content(content, write_block) {
        Value::Array(blocks) => {
            let blocks: Vec<_> = blocks.into_iter().filter(has_content).collect();
            (!blocks.is_empty()).then_some(Value::Array(blocks))
        }
        text => text.as_str().is_some_and(|text| !text.trim().is_empty()).then_some(text),
    }
}

/// Returns `false` for a block with an empty text.
fn has_content(block: &Value) -> bool {
    text_of(block, "text").is_none_or(|text| !text.trim().is_empty())
}

/// Returns `id`, or a valid call id derived from it. The API accepts letters, digits, `_` and `-`.
fn valid_id(id: &str) -> Cow<'_, str> {
    let is_allowed = |char: char| char.is_ascii_alphanumeric() || char == '_' || char == '-';
    if !id.is_empty() && id.chars().all(is_allowed) {
        Cow::Borrowed(id)
    } else {
        Cow::Owned(ToolName::sanitize(id).as_str().to_owned())
    }
}

/// Writes the content of `reply`: its original blocks, if its text and its calls are unchanged.
fn write_reply(reply: &AssistantMessage) -> Value {
    let stored = reply.provider_data.get(ANTHROPIC_DATA_KEY).and_then(|data| data.get("content")?.as_array());
    let canonical = canonical_blocks(reply);
    let Some(stored) = stored else {
        return match (reply.content.as_slice(), reply.tool_calls.as_slice()) {
            ([Content::Text { text }], []) if !text.trim().is_empty() => json!(text),
            _ => Value::Array(canonical),
        };
    };
    let is_written = |block: &&Value| matches!(text_of(block, "type"), Some("text" | "tool_use"));
    let essence = |block: &Value| {
        let fields = ["type", "text", "id", "name", "input"];
        fields.map(|field| block.get(field).cloned())
    };
    if stored.iter().filter(is_written).map(essence).eq(in_order(&canonical, stored).map(essence)) {
        return json!(stored);
    }
    // The signature of a thought does not depend on the blocks after it.
    let is_thought =
        |block: &&Value| matches!(text_of(block, "type"), Some("thinking" | "redacted_thinking"));
    stored.iter().take_while(is_thought).cloned().chain(canonical).collect()
}

/// Returns `canonical`, texts and then calls, in the order of their types in `stored`.
fn in_order<'a>(canonical: &'a [Value], stored: &'a [Value]) -> impl Iterator<Item = &'a Value> {
    let of = |kind: &'static str| canonical.iter().filter(move |block| text_of(block, "type") == Some(kind));
    let (mut texts, mut calls) = (of("text"), of("tool_use"));
    let mut ordered: Vec<_> = stored
        .iter()
        .filter_map(|block| match text_of(block, "type") {
            Some("text") => texts.next(),
            Some("tool_use") => calls.next(),
            _ => None,
        })
        .collect();
    ordered.extend(texts.chain(calls));
    ordered.into_iter()
}

/// Returns the blocks of `reply` without its provider data: the texts, and then the calls.
fn canonical_blocks(reply: &AssistantMessage) -> Vec<Value> {
    let refusal = reply.refusal.as_ref().filter(|_| reply.content.is_empty());
    let refusal = refusal.map(|refusal| json!({"type": "text", "text": refusal}));
    let calls = reply.tool_calls.iter().map(|call| {
        let input = match call.arguments.value() {
            Ok(input @ Value::Object(_)) => input.clone(),
            _ if call.arguments.trim().is_empty() => json!({}),
            _ => json!({"malformed_arguments": &*call.arguments}),
        };
        json!({"type": "tool_use", "id": valid_id(&call.id), "name": valid_name(&call.name), "input": input})
    });
    let texts = reply.content.iter().map(write_block).chain(refusal).filter(has_content);
    texts.chain(calls).collect()
}
