//! Replies as blocks, in the order in which the API sent them.

use haft_core::{
    ToolCall,
    message::AssistantMessage,
    model::adapter::{Origin, valid_tool_name},
};
use serde::Serialize;
use serde_json::{Map, Value, json, value::RawValue};

use super::{
    DATA_KEY, EncodingOptions, SEPARATOR,
    block::{Block, BlockKind},
    content::encode_text,
};

/// Encodes `reply`. If its provider data has the blocks of the API, their order is restored, with
/// the thinking and the calls of hosted tools.
///
/// After a change of the text or the calls, only the thinking before other blocks is sent, because
/// the later thinking refers to what was changed.
pub(super) fn encode_reply(reply: &AssistantMessage, options: &EncodingOptions) -> Vec<Block> {
    let markers = markers_of(reply, &options.origin);
    let mut rest = UnplacedParts::new(reply, markers);
    let mut blocks = Vec::new();
    for (marker, kind) in markers.iter().map(|marker| (marker, kind_of(marker))) {
        match kind {
            "text" => blocks.extend(rest.take_text(marker)),
            "tool_use" => blocks.extend(rest.take_call(marker, options)),
            "thinking" | "redacted_thinking" => {
                let is_first = blocks.iter().all(|block: &Block| block.kind() == BlockKind::Thinking);
                let thought = rest.take_thought(marker, kind);
                blocks.extend(thought.filter(|_| is_first || !rest.is_changed));
            }
            _ => {
                rest.follows_text = false;
                blocks.push(Block::new(marker, BlockKind::Other));
            }
        }
    }
    rest.append_to(&mut blocks, options);
    // The API rejects a message that ends in thinking.
    while blocks.last().is_some_and(|block| block.kind() == BlockKind::Thinking) {
        blocks.pop();
    }
    trim_last_text(&mut blocks);
    blocks
}

/// Returns the blocks in the provider data of `reply`, without their texts and arguments.
pub(crate) fn markers_of<'a>(reply: &'a AssistantMessage, origin: &Origin) -> &'a [Value] {
    let data = origin.data_for(reply, DATA_KEY).and_then(|data| data.get("blocks")?.as_array());
    data.map(Vec::as_slice).unwrap_or_default()
}

/// Returns the `type` of a block.
pub(crate) fn kind_of(block: &Value) -> &str {
    block.get("type").and_then(Value::as_str).unwrap_or_default()
}

/// The parts of a reply that are not encoded yet.
struct UnplacedParts<'a> {
    reply: &'a AssistantMessage,
    text: Slices,
    reasoning: Slices,
    calls: Vec<&'a ToolCall>,
    /// `true` if the text or the calls are not those that the API sent.
    is_changed: bool,
    follows_text: bool,
}

/// A text that is split at the lengths of its markers.
struct Slices {
    rest: String,
    /// `true` if the length of the text is that of the markers.
    is_unchanged: bool,
    has_begun: bool,
}

impl<'a> UnplacedParts<'a> {
    fn new(reply: &'a AssistantMessage, markers: &[Value]) -> Self {
        let text = Slices::new(&reply.text(), lengths(markers, "text"));
        let thoughts = lengths(markers, "thinking").into_iter().map(|(length, _)| (length, false)).collect();
        let reasoning = Slices::new(reply.reasoning.as_deref().unwrap_or_default(), thoughts);
        let issued = markers.iter().filter(|marker| kind_of(marker) == "tool_use");
        let issued = issued.filter_map(|marker| marker.get("id")?.as_str());
        let has_same_calls = issued.eq(reply.tool_calls.iter().map(|call| call.id.as_str()));
        Self {
            reply,
            is_changed: !text.is_unchanged || !has_same_calls,
            text,
            reasoning,
            calls: reply.tool_calls.iter().collect(),
            follows_text: false,
        }
    }

    /// Restores the text block of `marker`, or encodes the whole text if it was changed.
    fn take_text(&mut self, marker: &Value) -> Option<Block> {
        let is_direct = std::mem::replace(&mut self.follows_text, true);
        let is_unchanged = self.text.is_unchanged;
        let text = self.text.take(length_of(marker), is_direct)?;
        let mut block = encode_text(&text)?;
        let citations = marker.get("citations").filter(|_| is_unchanged);
        if let (Some(citations), Value::Object(block)) = (citations, &mut block) {
            block.insert("citations".to_owned(), citations.clone());
        }
        Some(Block::new(&block, BlockKind::Other))
    }

    fn take_call(&mut self, marker: &Value, options: &EncodingOptions) -> Option<Block> {
        self.follows_text = false;
        let id = marker.get("id")?.as_str()?;
        let place = self.calls.iter().position(|call| call.id == id)?;
        Some(call_block(self.reply, self.calls.remove(place), Some(marker), options))
    }

    /// Restores the thinking of `marker`. Returns `None` if the reasoning of the reply was changed,
    /// because its signature would not match.
    fn take_thought(&mut self, marker: &Value, kind: &str) -> Option<Block> {
        self.follows_text = false;
        if kind != "thinking" {
            return Some(Block::new(marker, BlockKind::Thinking));
        }
        if !self.reasoning.is_unchanged {
            return None;
        }
        let thinking = self.reasoning.take(length_of(marker), false).unwrap_or_default();
        let signature = marker.get("signature")?;
        Some(Block::new(
            &json!({"type": "thinking", "thinking": thinking, "signature": signature}),
            BlockKind::Thinking,
        ))
    }

    /// Appends the text and the calls that have no marker. A refusal is sent as text if the reply
    /// has no content.
    fn append_to(mut self, blocks: &mut Vec<Block>, options: &EncodingOptions) {
        let texts = if self.text.has_begun {
            Vec::new()
        } else if self.reply.content.is_empty() {
            self.reply.refusal.iter().filter_map(|text| encode_text(text)).collect()
        } else {
            self.reply.content.iter().filter_map(|piece| encode_text(&piece.as_text())).collect()
        };
        blocks.extend(texts.iter().map(|text| Block::new(text, BlockKind::Other)));
        for call in self.calls.drain(..) {
            blocks.push(call_block(self.reply, call, None, options));
        }
    }
}

impl Slices {
    /// Creates the slices of `text`. Each element of `lengths` is the length of a slice, and `true`
    /// if no separator precedes it.
    fn new(text: &str, lengths: Vec<(usize, bool)>) -> Self {
        let mut expected = 0_usize;
        for (place, (length, is_direct)) in lengths.into_iter().enumerate() {
            let separator = if place == 0 || is_direct { 0 } else { SEPARATOR.len() };
            expected = expected.saturating_add(separator).saturating_add(length);
        }
        Self { rest: text.to_owned(), is_unchanged: expected == text.len(), has_begun: false }
    }

    /// Returns the next slice: `length` bytes, after a separator unless `is_direct` is `true`.
    /// Returns the whole text if it was changed.
    fn take(&mut self, length: usize, is_direct: bool) -> Option<String> {
        if length == 0 && self.is_unchanged {
            return None;
        }
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        if !self.is_unchanged {
            return is_first.then(|| std::mem::take(&mut self.rest));
        }
        let separator = if is_first || is_direct { "" } else { SEPARATOR };
        let rest = self.rest.strip_prefix(separator).unwrap_or(&self.rest);
        let (slice, rest) = rest.split_at_checked(length).unwrap_or((rest, ""));
        let (slice, rest) = (slice.to_owned(), rest.to_owned());
        self.rest = rest;
        Some(slice)
    }
}

/// Returns the lengths of the markers of `kind`, and `true` for each that directly follows another
/// one. Markers without text are skipped.
fn lengths(markers: &[Value], kind: &str) -> Vec<(usize, bool)> {
    let mut follows = false;
    let mut found = Vec::new();
    for marker in markers {
        let is_direct = std::mem::replace(&mut follows, kind_of(marker) == kind);
        if kind_of(marker) == kind && length_of(marker) > 0 {
            found.push((length_of(marker), is_direct));
        }
    }
    found
}

fn length_of(marker: &Value) -> usize {
    marker.get("length").and_then(Value::as_u64).and_then(|length| length.try_into().ok()).unwrap_or_default()
}

/// A `tool_use` block.
#[derive(Serialize)]
struct ToolUse<'a> {
    r#type: &'static str,
    id: &'a str,
    name: &'a str,
    input: Box<RawValue>,
    #[serde(flatten)]
    extra: Map<String, Value>,
}

fn call_block(
    reply: &AssistantMessage,
    call: &ToolCall,
    marker: Option<&Value>,
    options: &EncodingOptions,
) -> Block {
    let mut extra = marker.and_then(Value::as_object).cloned().unwrap_or_default();
    extra.retain(|key, _| !matches!(key.as_str(), "type" | "id"));
    let input = RawValue::from_string(call.arguments_object().into_owned());
    let call = ToolUse {
        r#type: "tool_use",
        id: &options.call_ids.id_of_call(reply, &call.id),
        name: &valid_tool_name(&call.name),
        input: input.unwrap_or_else(|_| RawValue::NULL.to_owned()),
        extra,
    };
    Block::new(&call, BlockKind::Call)
}

/// Removes whitespace at the end of the last block if it is a text, because the API rejects a
/// request whose last message ends in whitespace.
fn trim_last_text(blocks: &mut Vec<Block>) {
    let Some(last) = blocks.last() else { return };
    let Ok(mut block) = serde_json::from_str::<Value>(last.json().get()) else { return };
    let Some(Value::String(text)) = block
        .get_mut("text")
        .filter(|text| text.as_str().is_some_and(|text| text.ends_with(char::is_whitespace)))
    else {
        return;
    };
    text.truncate(text.trim_end().len());
    blocks.pop();
    blocks.push(Block::new(&block, BlockKind::Other));
}
