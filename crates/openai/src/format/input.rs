#[cfg(feature = "client")]
mod kept;

use std::{borrow::Cow, sync::Arc};

use haft_core::{
    Message, ToolCall, ToolResult,
    content::Content,
    message::{AssistantMessage, MessageBody},
};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};

#[cfg(feature = "client")]
use self::kept::Kept;
use super::{
    EncodingOptions,
    content::{Medium, plain},
    message::{arguments_object, valid_name},
    raw,
};
use crate::{
    parts::pieces,
    reply::{ITEMS_ADAPTER, SEPARATOR},
};

/// The `input` of a request of the Responses API. The items of each message are cached.
pub(crate) struct Input(Vec<Arc<Rendering>>);

/// The cache beside a message.
struct Rendering {
    encoding: Arc<EncodingOptions>,
    items: Vec<Box<RawValue>>,
    /// Data for conversations that the server stores.
    #[cfg(feature = "client")]
    kept: Kept,
}

impl Input {
    pub(crate) fn new<'a>(
        messages: impl IntoIterator<Item = &'a Arc<Message>>,
        encoding: &Arc<EncodingOptions>,
    ) -> Self {
        Self(messages.into_iter().map(|message| Rendering::of(message, encoding)).collect())
    }

    fn iter(&self) -> impl Iterator<Item = &RawValue> {
        self.0.iter().flat_map(|message| message.items.iter().map(|item| &**item))
    }

    /// The items as values.
    pub(crate) fn to_values(&self) -> Vec<Value> {
        self.iter().map(|item| json!(item)).collect()
    }
}

impl Serialize for Input {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl Rendering {
    fn of(message: &Message, encoding: &Arc<EncodingOptions>) -> Arc<Self> {
        let kept = message.rendering(|message| Self::new(message, encoding));
        // Cached for a model with other options.
        if kept.encoding == *encoding { kept } else { Arc::new(Self::new(message, encoding)) }
    }

    fn new(message: &Message, encoding: &Arc<EncodingOptions>) -> Self {
        let items: Vec<_> = items(message, encoding).iter().map(raw).collect();
        Self {
            encoding: Arc::clone(encoding),
            #[cfg(feature = "client")]
            kept: Kept::of(message, &items, encoding),
            items,
        }
    }
}

fn items(message: &Message, encoding: &EncodingOptions) -> Vec<Value> {
    match message.body() {
        MessageBody::System { content } => vec![json!({"role": "system", "content": plain(content)})],
        MessageBody::User { content } => {
            vec![json!({"role": "user", "content": said_by_user(content, encoding)})]
        }
        MessageBody::Assistant(said) => said_by_model(said, encoding),
        MessageBody::Tool(result) => vec![output(result, encoding)],
    }
}

/// A string if it is only text, else a list of parts.
fn said_by_user(content: &[Content], encoding: &EncodingOptions) -> Value {
    if content.iter().any(|piece| is_readable(piece, encoding)) {
        content.iter().map(|piece| part(piece, encoding)).collect()
    } else {
        plain(content).into()
    }
}

/// Returns `true` if a piece is sent as a medium. The API accepts no audio.
fn is_readable(piece: &Content, encoding: &EncodingOptions) -> bool {
    matches!(Medium::of(piece, encoding), Some(Medium::Image { .. } | Medium::File { .. }))
}

fn part(piece: &Content, encoding: &EncodingOptions) -> Value {
    match Medium::of(piece, encoding) {
        Some(Medium::Image { data, media_type }) => {
            json!({"type": "input_image", "image_url": Medium::data_url(data, media_type)})
        }
        Some(Medium::File { data, media_type, name }) => {
            json!({"type": "input_file", "filename": name, "file_data": Medium::data_url(data, media_type)})
        }
        Some(Medium::Audio { .. }) | None => json!({"type": "input_text", "text": piece.as_text()}),
    }
}

/// The item that answers a call.
pub(crate) fn output(result: &ToolResult, encoding: &EncodingOptions) -> Value {
    let output = pieces(result, |piece| is_readable(piece, encoding), |piece| part(piece, encoding));
    json!({"type": "function_call_output", "call_id": result.call_id, "output": output})
}

/// The items of a reply in their original order, if it is known. Reasoning without a following item
/// is omitted, because the API rejects it.
fn said_by_model(said: &AssistantMessage, encoding: &EncodingOptions) -> Vec<Value> {
    let kept = encoding.origin.own(said, ITEMS_ADAPTER).and_then(|data| data.get("items")?.as_array());
    let markers = kept.map(Vec::as_slice).unwrap_or_default();
    let mut rest = Rest::new(said, markers);
    let (mut items, mut thoughts) = (Vec::new(), Vec::new());
    for marker in markers {
        let item = match marker.get("type").and_then(Value::as_str) {
            Some("reasoning") => {
                if encoding.keeps_reasoning || tells_reasoning(marker) {
                    thoughts.push(marker.clone());
                }
                continue;
            }
            Some("message") => rest.message(marker),
            Some("function_call") => rest.call(marker),
            _ => Some(marker.clone()),
        };
        let thoughts = thoughts.drain(..);
        if let Some(item) = item {
            items.extend(thoughts);
            items.push(item);
        }
    }
    items.extend(rest.text.take().map(|text| spoken(&text)));
    items.extend(rest.calls.iter().copied().map(called));
    items
}

/// Returns `true` if a reasoning item has content. Without content it refers to stored reasoning,
/// and a server that stores nothing rejects it.
fn tells_reasoning(item: &Value) -> bool {
    let is_told = |key| match item.get(key) {
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(parts)) => !parts.is_empty(),
        _ => false,
    };
    is_told("encrypted_content") || is_told("content")
}

/// The part of a message that is not encoded yet.
struct Rest<'a> {
    text: Option<Cow<'a, str>>,
    /// Set if the text has the length that the markers add up to.
    is_as_it_came: bool,
    calls: Vec<&'a ToolCall>,
}

impl<'a> Rest<'a> {
    fn new(said: &'a AssistantMessage, markers: &[Value]) -> Self {
        let text = match &said.refusal {
            Some(refusal) if said.content.is_empty() => Cow::Borrowed(refusal.as_str()),
            _ => Cow::Owned(said.text()),
        };
        let lengths: Vec<_> = markers.iter().filter_map(length).filter(|length| *length > 0).collect();
        let separators = SEPARATOR.len() * lengths.len().saturating_sub(1);
        let all = lengths.iter().fold(separators, |all, length| all.saturating_add(*length));
        let is_as_it_came = all == text.len();
        let text = Some(text).filter(|text| !text.is_empty());
        Self { text, is_as_it_came, calls: said.tool_calls.iter().collect() }
    }

    /// The text of the next message: its original part, or all of a text that was changed.
    fn message(&mut self, marker: &Value) -> Option<Value> {
        let text = self.text.take()?;
        let is_own = |length: &usize| self.is_as_it_came && text.is_char_boundary(*length);
        let length = length(marker).filter(is_own).unwrap_or(text.len());
        let own = text.get(..length)?;
        if own.is_empty() {
            self.text = Some(text);
            return None;
        }
        let rest = text.get(length..)?;
        let rest = rest.strip_prefix(SEPARATOR).unwrap_or(rest);
        let mut item = spoken(own);
        if let Some(phase) = marker.get("phase") {
            item["phase"] = phase.clone();
        }
        self.text = Some(rest.to_owned().into()).filter(|rest: &Cow<'_, str>| !rest.is_empty());
        Some(item)
    }

    fn call(&mut self, marker: &Value) -> Option<Value> {
        let id = marker.get("call_id")?.as_str()?;
        let place = self.calls.iter().position(|call| call.id == id)?;
        Some(called(self.calls.remove(place)))
    }
}

fn length(marker: &Value) -> Option<usize> {
    marker.get("length")?.as_u64()?.try_into().ok()
}

fn spoken(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

fn called(call: &ToolCall) -> Value {
    json!({
        "type": "function_call",
        "call_id": call.id,
        "name": valid_name(&call.name),
        "arguments": arguments_object(&call.arguments),
    })
}
