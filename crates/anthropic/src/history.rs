//! Message histories in the JSON of the Messages API, read into messages and written back.
//!
//! Use it to continue a conversation that another program or framework has stored, or to export a
//! conversation. For requests, use [`Messages`](crate::Messages).
//!
//! Reading is lenient: fields may be missing, content may be a string or a list of blocks. Signed
//! thinking and other blocks of a reply are kept as
//! [`ProviderData`](haft_core::message::ProviderData), which only this API receives. All other
//! unknown blocks, and unknown fields of known blocks, are listed in [`History::omitted`].
//!
//! Reading a written history gives equal messages, as far as the format can express them. Adjacent
//! user messages are written as one, and a later system message is written as a user message. Tool
//! results contain no time, so they start at the Unix epoch.
//!
//! # Examples
//!
//! ```
//! use haft_anthropic::history;
//! use serde_json::json;
//!
//! let stored = json!({"system": "Be brief.", "messages": [
//!     {"role": "user", "content": "What is 17 plus 25?"},
//!     {"role": "assistant", "content": [
//!         {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"x": 17, "y": 25}},
//!     ]},
//!     {"role": "user", "content": [
//!         {"type": "tool_result", "tool_use_id": "toolu_1", "content": "42"},
//!     ]},
//! ]});
//! let history = history::from_messages(&stored)?;
//! assert!(history.omitted.is_empty());
//! let transcript = history.into_transcript();
//! let written = history::to_messages(transcript.messages());
//! assert_eq!(written["messages"][2], stored["messages"][2]);
//! # Ok::<(), haft_anthropic::history::HistoryError>(())
//! ```

use std::{borrow::Borrow, sync::Arc};

use haft_core::{
    Message,
    content::{Content, ResourceBody},
    message::{AssistantMessage, MessageBody},
    model::adapter::history::{
        HistoryReader, PartReader, decode_media, list_in, remote_image, required_text, text_of,
    },
};
use serde_json::{Map, Value, json};

use crate::{
    format::{Conversation, EncodingOptions, PDF, kind_of},
    reply::ReplyBuilder,
};

pub use haft_core::model::adapter::history::{History, HistoryError, Omission};

const BLOCKS: PartReader = PartReader {
    read: read_block,
    fields: &["type", "text", "source/type", "source/media_type", "source/data", "source/url", "title"],
};

/// Reads `json`, the `messages` of a Messages request or the whole request with its `system`.
///
/// Each result in a user message becomes a tool message. A result with `is_error` is a failed call.
///
/// # Errors
///
/// Fails with the path of the first message or block that is malformed, such as
/// ``messages/1/content/0: the string `id` is missing``.
pub fn from_messages(json: &Value) -> Result<History, HistoryError> {
    let mut reader = HistoryReader::default();
    let content = reader.read_content(json.get("system"), "system", &BLOCKS)?;
    if !content.is_empty() {
        reader.push(Message::new(MessageBody::System { content }));
    }
    for (index, message) in list_in(json, "messages")?.iter().enumerate() {
        let path = format!("messages/{index}");
        match required_text(message, "role", &path)? {
            "user" => read_user(&mut reader, message, &path)?,
            "system" => {
                let path = format!("{path}/content");
                let content = reader.read_content(message.get("content"), &path, &BLOCKS)?;
                reader.push(Message::new(MessageBody::System { content }));
            }
            "assistant" => {
                let reply = read_reply(&mut reader, message, &format!("{path}/content"))?;
                reader.push(Message::assistant(reply));
            }
            other => return Err(HistoryError::new(path, format_args!("the role `{other}` is unknown"))),
        }
    }
    Ok(reader.finish())
}

/// Writes `messages` as an object with the `messages` and the `system` of a Messages request.
/// `system` is absent if there are no system messages before the first other message.
///
/// Results and the user message after them are one message, as the API requires. Reasoning is
/// written only if it came from this API, which rejects other reasoning.
///
/// Other data that the API rejects is changed: empty texts and messages are omitted, images and
/// documents in other formats are written as text, and call ids and tool names are converted to
/// valid ones.
pub fn to_messages<M: Borrow<Arc<Message>>>(messages: impl IntoIterator<Item = M>) -> Value {
    let messages: Vec<Arc<Message>> =
        messages.into_iter().map(|message| Arc::clone(message.borrow())).collect();
    let conversation = Conversation::new(&messages, &Arc::new(EncodingOptions::default()));
    let system: Vec<_> = conversation.system().map(|block| json!(block)).collect();
    let mut request = Map::new();
    if !system.is_empty() {
        request.insert("system".to_owned(), Value::Array(system));
    }
    request.insert("messages".to_owned(), json!(conversation.messages(None)));
    Value::Object(request)
}

fn read_user(reader: &mut HistoryReader, message: &Value, path: &str) -> Result<(), HistoryError> {
    let path = format!("{path}/content");
    let Some(Value::Array(blocks)) = message.get("content") else {
        let content = reader.read_content(message.get("content"), &path, &BLOCKS)?;
        reader.push(Message::new(MessageBody::User { content }));
        return Ok(());
    };
    let mut user = Vec::new();
    for (index, block) in blocks.iter().enumerate() {
        let path = format!("{path}/{index}");
        if kind_of(block) == "tool_result" {
            let content = reader.read_content(block.get("content"), &format!("{path}/content"), &BLOCKS)?;
            let is_error = block.get("is_error") == Some(&Value::Bool(true));
            reader.push_result(required_text(block, "tool_use_id", &path)?, None, content, is_error);
            reader.omit_unknown_fields(&path, block, &["type", "tool_use_id", "content", "is_error"]);
            continue;
        }
        user.extend(reader.read_part(block, &path, &BLOCKS)?);
    }
    if !user.is_empty() || blocks.is_empty() {
        reader.push(Message::new(MessageBody::User { content: user }));
    }
    Ok(())
}

/// Reads the content of a reply at `path`.
fn read_reply(
    reader: &mut HistoryReader,
    message: &Value,
    path: &str,
) -> Result<AssistantMessage, HistoryError> {
    let blocks = match message.get("content") {
        Some(Value::Array(blocks)) => blocks,
        other => {
            let content = reader.read_content(other, path, &BLOCKS)?;
            return Ok(AssistantMessage { content, ..AssistantMessage::default() });
        }
    };
    for (index, block) in blocks.iter().enumerate() {
        let path = format!("{path}/{index}");
        let required: &[_] = match required_text(block, "type", &path)? {
            "text" => &["text"],
            "thinking" => &["thinking"],
            "tool_use" => &["id", "name"],
            _ => &[],
        };
        for key in required {
            required_text(block, key, &path)?;
        }
    }
    let mut reply = ReplyBuilder::read_blocks(blocks).map_err(|problem| HistoryError::new(path, problem))?;
    // Texts without other blocks between them remain separate pieces.
    if reply.provider_data.is_empty() {
        let texts = blocks.iter().filter_map(|block| text_of(block, "text"));
        reply.content = texts.map(Content::text).collect();
    }
    Ok(reply)
}

fn read_block(block: &Value) -> Result<Option<Content>, String> {
    let source = block.get("source");
    let field = |key| source.and_then(|source| text_of(source, key));
    let data = || field("data").ok_or("the string `source/data` is missing");
    let title = text_of(block, "title");
    match (kind_of(block), field("type")) {
        ("text", _) => Ok(text_of(block, "text").map(Content::text)),
        ("image", Some("base64")) => {
            decode_media(data()?, field("media_type").unwrap_or("image/png")).map(Some)
        }
        ("image", Some("url")) => Ok(field("url").map(remote_image)),
        ("document", Some("base64")) => {
            let piece = decode_media(data()?, field("media_type").unwrap_or(PDF))?;
            Ok(Some(match (piece, title) {
                (Content::Blob { data, media_type }, Some(title)) => Content::Resource {
                    uri: title.to_owned(),
                    media_type: Some(media_type),
                    body: ResourceBody::Blob(data),
                },
                (piece, _) => piece,
            }))
        }
        ("document", Some("url")) => Ok(field("url").map(|url| Content::ResourceLink {
            uri: url.to_owned(),
            name: title.unwrap_or_default().to_owned(),
            description: None,
            media_type: Some(PDF.to_owned()),
        })),
        ("document", Some("text")) => Ok(Some(Content::Resource {
            uri: title.unwrap_or_default().to_owned(),
            media_type: field("media_type").map(str::to_owned),
            body: ResourceBody::Text(data()?.to_owned()),
        })),
        _ => Ok(None),
    }
}
