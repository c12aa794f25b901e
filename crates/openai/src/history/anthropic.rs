//! Histories of Anthropic's Messages API.

use std::{borrow::Borrow, sync::Arc};

use haft_core::{
    Message, ToolCall, ToolResult,
    content::{Content, ResourceBody},
    message::{AssistantMessage, MessageBody},
};
use serde_json::{Map, Value, json};

use super::{
    History, HistoryError, Reader,
    content::{as_document, media, remote_image, remote_image_url, write_content},
    error, list_in, required, text_of,
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
    let content = reader.read_content(json.get("system"), "system", read_block)?;
    if !content.is_empty() {
        reader.push(Message::new(MessageBody::System { content }));
    }
    for (index, message) in list_in(json, "messages")?.iter().enumerate() {
        let place = format!("messages/{index}");
        match required(message, "role", &place)? {
            "user" => reader.read_user(message, &place)?,
            "assistant" => {
                let reply = reader.read_blocks(message, &place)?;
                reader.push(Message::assistant(reply));
            }
            other => return error(place, format_args!("the role `{other}` is unknown")),
        }
    }
    Ok(reader.history)
}

/// Writes `messages` as an object with the `messages` and the `system` of a Messages request.
/// `system` contains all system messages, and is absent if there are none.
///
/// Results and the user message after them are one message, as the API requires. Reasoning is
/// written only if it came from this API, which rejects other reasoning.
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
                follows_result = false;
                written.push(json!({"role": "assistant", "content": write_reply(reply)}));
                continue;
            }
            MessageBody::User { content } => (false, write_content(content, write_block)),
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
    if !system.is_empty() {
        request.insert("system".to_owned(), write_content(&system, write_block));
    }
    request.insert("messages".to_owned(), Value::Array(written));
    Value::Object(request)
}

impl Reader {
    fn read_user(&mut self, message: &Value, place: &str) -> Result<(), HistoryError> {
        let place = format!("{place}/content");
        let Some(Value::Array(blocks)) = message.get("content") else {
            let content = self.read_content(message.get("content"), &place, read_block)?;
            self.push(Message::new(MessageBody::User { content }));
            return Ok(());
        };
        let mut user = Vec::new();
        for (index, block) in blocks.iter().enumerate() {
            let place = format!("{place}/{index}");
            if text_of(block, "type") == Some("tool_result") {
                let content =
                    self.read_content(block.get("content"), &format!("{place}/content"), read_block)?;
                let is_error = block.get("is_error") == Some(&Value::Bool(true));
                self.push_result(required(block, "tool_use_id", &place)?, None, content, is_error);
                self.omit_unknown_fields(&place, block, &["type", "tool_use_id", "content", "is_error"]);
                continue;
            }
            match read_block(block) {
                Ok(Some(piece)) => {
                    self.omit_unknown_fields(&place, block, &["type", "text", "source", "title"]);
                    user.push(piece);
                }
                Ok(None) => {
                    let kind = text_of(block, "type").unwrap_or("without a type");
                    self.omit(&place, format_args!("the block `{kind}` is not supported"));
                }
                Err(problem) => return error(place, problem),
            }
        }
        if !user.is_empty() || blocks.is_empty() {
            self.push(Message::new(MessageBody::User { content: user }));
        }
        Ok(())
    }

    /// Reads the content of a reply.
    fn read_blocks(&mut self, message: &Value, place: &str) -> Result<AssistantMessage, HistoryError> {
        let place = format!("{place}/content");
        let blocks = match message.get("content") {
            Some(Value::Array(blocks)) => blocks,
            other => {
                let content = self.read_content(other, &place, read_block)?;
                return Ok(AssistantMessage { content, ..AssistantMessage::default() });
            }
        };
        let mut reply = AssistantMessage::default();
        let mut thoughts = Vec::new();
        for (index, block) in blocks.iter().enumerate() {
            let place = format!("{place}/{index}");
            match text_of(block, "type") {
                Some("text") => reply.content.push(Content::text(required(block, "text", &place)?)),
                Some("thinking") => thoughts.push(required(block, "thinking", &place)?),
                Some("tool_use") => {
                    let input = block.get("input").filter(|input| !input.is_null());
                    let arguments = input.map_or_else(|| "{}".to_owned(), Value::to_string);
                    let (id, name) = (required(block, "id", &place)?, required(block, "name", &place)?);
                    reply.tool_calls.push(ToolCall::new(id, name, arguments));
                }
                Some(_) => {}
                None => return error(place, "the string `type` is missing"),
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
        (Content::Image { data, media_type }, _) => {
            let source = json!({"type": "base64", "media_type": media_type, "data": data.to_base64()});
            json!({"type": "image", "source": source})
        }
        (_, Some((data, media_type, name))) => {
            titled(json!({"type": "base64", "media_type": media_type, "data": data.to_base64()}), name)
        }
        (Content::Resource { uri, media_type, body: ResourceBody::Text(text) }, None) => {
            let media_type = media_type.as_deref().unwrap_or("text/plain");
            titled(json!({"type": "text", "media_type": media_type, "data": text}), Some(uri))
        }
        (other, None) => json!({"type": "text", "text": other.as_text()}),
    }
}

fn write_result(result: &ToolResult) -> Value {
    let mut block = json!({"type": "tool_result", "tool_use_id": result.call_id});
    block["content"] = match result.output() {
        Some(output) => write_content(&output.content, write_block),
        None => json!(result.model_text()),
    };
    if result.failure().is_some() {
        block["is_error"] = json!(true);
    }
    block
}

/// Writes the content of `reply`: its original blocks, if its text and its calls are unchanged.
fn write_reply(reply: &AssistantMessage) -> Value {
    let stored = reply.provider_data.get(ANTHROPIC_DATA_KEY).and_then(|data| data.get("content")?.as_array());
    let canonical = canonical_blocks(reply);
    let Some(stored) = stored else {
        return match (reply.content.as_slice(), reply.tool_calls.as_slice()) {
            ([Content::Text { text }], []) => json!(text),
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
        json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input})
    });
    reply.content.iter().map(write_block).chain(refusal).chain(calls).collect()
}
