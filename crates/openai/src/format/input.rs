#[cfg(feature = "client")]
mod stored_responses;

use std::{borrow::Cow, sync::Arc};

use haft_core::{
    Message, ToolCall, ToolResult,
    content::Content,
    message::{AssistantMessage, MessageBody},
    model::{adapter::encode_result_content, later_system_text},
};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};

#[cfg(feature = "client")]
use self::stored_responses::MessageDigest;
use super::{
    EncodingOptions,
    content::{Medium, joined_text},
    message_form::MessageForm,
    to_raw_json, valid_name,
};
use crate::reply::{RESPONSES_DATA_KEY, TEXT_SEPARATOR};

/// The `input` field of a request to the Responses API. The items of each message are cached in the
/// message.
pub(crate) struct Input(Vec<Arc<CachedItems>>);

/// The encoded items of one message, cached in the message.
struct CachedItems {
    encoding: Arc<EncodingOptions>,
    form: MessageForm,
    items: Vec<Box<RawValue>>,
    /// The digest of the message, used to recognize conversations that the server has stored.
    #[cfg(feature = "client")]
    digest: MessageDigest,
}

/// The encoded items of a message with a cache breakpoint, cached in the message.
struct Marked(Arc<CachedItems>);

impl Input {
    pub(crate) fn new<'a>(
        messages: impl IntoIterator<Item = &'a Arc<Message>>,
        encoding: &Arc<EncodingOptions>,
    ) -> Self {
        let messages: Vec<_> = messages.into_iter().collect();
        let forms = MessageForm::of_messages(&messages, &encoding.call_ids);
        Self(forms.map(|(message, form)| CachedItems::of(message, encoding, form)).collect())
    }

    fn iter(&self) -> impl Iterator<Item = &RawValue> {
        self.0.iter().flat_map(|message| message.items.iter().map(|item| &**item))
    }

    /// Returns the input items of all messages as JSON values.
    pub(crate) fn to_values(&self) -> Vec<Value> {
        self.iter().map(|item| json!(item)).collect()
    }
}

impl Serialize for Input {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl CachedItems {
    fn of(message: &Message, encoding: &Arc<EncodingOptions>, form: MessageForm) -> Arc<Self> {
        let cached = if form.is_marked && encoding.cache_breakpoints.is_some() {
            Arc::clone(&message.memoize(|message| Marked(Arc::new(Self::new(message, encoding, form)))).0)
        } else {
            message.memoize(|message| Self::new(message, encoding, form))
        };
        // Do not use the cached encoding if another model created it with different options.
        if cached.form.is_id_kept == form.is_id_kept && cached.encoding == *encoding {
            cached
        } else {
            Arc::new(Self::new(message, encoding, form))
        }
    }

    fn new(message: &Message, encoding: &Arc<EncodingOptions>, form: MessageForm) -> Self {
        let items: Vec<_> = encode_items(message, encoding, form).iter().map(to_raw_json).collect();
        Self {
            encoding: Arc::clone(encoding),
            form,
            #[cfg(feature = "client")]
            digest: MessageDigest::of(message, &items, encoding),
            items,
        }
    }
}

fn encode_items(message: &Message, encoding: &EncodingOptions, form: MessageForm) -> Vec<Value> {
    match message.body() {
        MessageBody::System { content } if encoding.has_one_system_message => {
            vec![json!({"role": "user", "content": later_system_text(&joined_text(content))})]
        }
        MessageBody::System { content } => {
            let content = with_breakpoint(joined_text(content).into(), encoding, form);
            vec![json!({"role": "system", "content": content})]
        }
        MessageBody::User { content } => {
            let content = with_breakpoint(user_content(content, encoding), encoding, form);
            vec![json!({"role": "user", "content": content})]
        }
        MessageBody::Assistant(reply) => assistant_items(reply, encoding),
        MessageBody::Tool(result) => vec![encode_tool_result(result, encoding, form)],
    }
}

/// Encodes the content of a user message as a list of parts if it contains an image or a file, or
/// else as a string.
fn user_content(content: &[Content], encoding: &EncodingOptions) -> Value {
    if content.iter().any(|piece| is_media(piece, encoding)) {
        content.iter().map(|piece| encode_part(piece, encoding)).collect()
    } else {
        joined_text(content).into()
    }
}

/// Returns `true` if `piece` is sent as an image or a file. The Responses API accepts no audio.
fn is_media(piece: &Content, encoding: &EncodingOptions) -> bool {
    matches!(
        Medium::of(piece, encoding),
        Some(Medium::Image { .. } | Medium::RemoteImage { .. } | Medium::File { .. })
    )
}

fn encode_part(piece: &Content, encoding: &EncodingOptions) -> Value {
    match Medium::of(piece, encoding) {
        Some(Medium::Image { data, media_type }) => {
            json!({"type": "input_image", "image_url": Medium::data_url(data, media_type)})
        }
        Some(Medium::RemoteImage { url }) => json!({"type": "input_image", "image_url": url}),
        Some(Medium::File { data, media_type, name }) => {
            json!({"type": "input_file", "filename": name, "file_data": Medium::data_url(data, media_type)})
        }
        Some(Medium::Audio { .. }) | None => json!({"type": "input_text", "text": piece.as_text()}),
    }
}

/// Encodes `result`, the result of a tool call, as an input item.
pub(crate) fn encode_tool_result(
    result: &ToolResult,
    encoding: &EncodingOptions,
    form: MessageForm,
) -> Value {
    let output = encode_result_content(
        result,
        |piece| is_media(piece, encoding),
        |piece| encode_part(piece, encoding),
    );
    let call_id = encoding.call_ids.id_of_result(&result.call_id, form.is_id_kept);
    let output = with_breakpoint(output, encoding, form);
    json!({"type": "function_call_output", "call_id": call_id, "output": output})
}

/// If the messages have cache breakpoints, converts `content`, a text or a list of parts, to a list
/// of parts, unless it is empty. Marks its end if `form` says so. A message keeps its list when its
/// mark moves on, so that the cached prefix does not change.
fn with_breakpoint(content: Value, encoding: &EncodingOptions, form: MessageForm) -> Value {
    let Some(breakpoint) = encoding.cache_breakpoints else { return content };
    let mut parts = match content {
        Value::String(text) if !text.is_empty() => vec![json!({"type": "input_text", "text": text})],
        Value::Array(parts) => parts,
        other => return other,
    };
    if let Some(Value::Object(last)) = parts.last_mut().filter(|_| form.is_marked) {
        last.insert("prompt_cache_breakpoint".to_owned(), json!(breakpoint));
    }
    Value::Array(parts)
}

/// Encodes `reply` as input items. The original order of the items is restored if the provider data
/// of `reply` contains it. Reasoning is omitted if the item that followed it was removed, because
/// the API rejects reasoning without this item.
fn assistant_items(reply: &AssistantMessage, encoding: &EncodingOptions) -> Vec<Value> {
    let stored =
        encoding.origin.data_for(reply, RESPONSES_DATA_KEY).and_then(|data| data.get("items")?.as_array());
    let markers = stored.map(Vec::as_slice).unwrap_or_default();
    let mut rest = UnplacedParts::new(reply, markers);
    let (mut items, mut thoughts) = (Vec::new(), Vec::new());
    for marker in markers {
        let item = match marker.get("type").and_then(Value::as_str) {
            Some("reasoning") => {
                if encoding.server_stores_reasoning || has_reasoning(marker) {
                    thoughts.push(marker.clone());
                }
                continue;
            }
            Some("message") => rest.take_message(marker),
            Some("function_call") => rest.take_call(marker, encoding),
            _ => Some(marker.clone()),
        };
        let thoughts = thoughts.drain(..);
        if let Some(item) = item {
            items.extend(thoughts);
            items.push(item);
        }
    }
    items.extend(rest.text.take().map(|text| message_item(&text)));
    items.extend(rest.calls.iter().map(|call| call_item(reply, call, encoding)));
    items
}

/// Returns `true` if the reasoning item `item` has content. An item without content is only a
/// reference to reasoning that the server has stored, so a server that stores nothing rejects the
/// item.
fn has_reasoning(item: &Value) -> bool {
    let is_filled = |key| match item.get(key) {
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(parts)) => !parts.is_empty(),
        _ => false,
    };
    is_filled("encrypted_content") || is_filled("content")
}

/// The parts of an assistant message, text and calls, that are not encoded yet.
struct UnplacedParts<'a> {
    text: Option<Cow<'a, str>>,
    /// `true` if the total length of the text matches the lengths in the stored items. The text can
    /// then be split into the original messages.
    is_unchanged: bool,
    calls: Vec<&'a ToolCall>,
    reply: &'a AssistantMessage,
}

impl<'a> UnplacedParts<'a> {
    fn new(reply: &'a AssistantMessage, markers: &[Value]) -> Self {
        let text = match &reply.refusal {
            Some(refusal) if reply.content.is_empty() => Cow::Borrowed(refusal.as_str()),
            _ => Cow::Owned(reply.text()),
        };
        let lengths: Vec<_> = markers.iter().filter_map(stored_length).filter(|length| *length > 0).collect();
        let separators = TEXT_SEPARATOR.len() * lengths.len().saturating_sub(1);
        let all = lengths.iter().fold(separators, |all, length| all.saturating_add(*length));
        let is_unchanged = all == text.len();
        let text = Some(text).filter(|text| !text.is_empty());
        Self { text, is_unchanged, calls: reply.tool_calls.iter().collect(), reply }
    }

    /// Restores the message item that `marker` represents in the provider data. The item contains
    /// its original part of the text, or all of the remaining text if the text was changed. Returns
    /// `None` if no text is left for the item.
    fn take_message(&mut self, marker: &Value) -> Option<Value> {
        let text = self.text.take()?;
        let is_own = |length: &usize| self.is_unchanged && text.is_char_boundary(*length);
        let length = stored_length(marker).filter(is_own).unwrap_or(text.len());
        let own = text.get(..length)?;
        if own.is_empty() {
            self.text = Some(text);
            return None;
        }
        let rest = text.get(length..)?;
        let rest = rest.strip_prefix(TEXT_SEPARATOR).unwrap_or(rest);
        let mut item = message_item(own);
        if let Some(phase) = marker.get("phase") {
            item["phase"] = phase.clone();
        }
        self.text = Some(rest.to_owned().into()).filter(|rest: &Cow<'_, str>| !rest.is_empty());
        Some(item)
    }

    fn take_call(&mut self, marker: &Value, encoding: &EncodingOptions) -> Option<Value> {
        let id = marker.get("call_id")?.as_str()?;
        let place = self.calls.iter().position(|call| call.id == id)?;
        Some(call_item(self.reply, self.calls.remove(place), encoding))
    }
}

fn stored_length(marker: &Value) -> Option<usize> {
    marker.get("length")?.as_u64()?.try_into().ok()
}

fn message_item(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

fn call_item(reply: &AssistantMessage, call: &ToolCall, encoding: &EncodingOptions) -> Value {
    json!({
        "type": "function_call",
        "call_id": encoding.call_ids.id_of_call(reply, &call.id),
        "name": valid_name(&call.name),
        "arguments": call.arguments_object(),
    })
}
