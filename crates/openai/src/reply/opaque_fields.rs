use haft_core::{
    message::ProviderData,
    model::adapter::{Origin, surrogates},
};
use serde_json::{Map, Value};

use crate::wire::{LenientValue, WireMessage};

/// The key under which the Chat Completions adapter stores provider data in a message.
pub(crate) const CHAT_DATA_KEY: &str = "chat_completions";

/// Opaque data from a server that must be sent back unchanged with the message.
#[derive(Debug, Default)]
pub(super) struct OpaqueFields {
    /// The fields `reasoning_details` (OpenRouter) and `thinking_blocks` (gateways to Anthropic).
    lists: Map<String, Value>,
    /// Gemini's field `extra_content` with a thought signature.
    extra_content: Option<Value>,
    /// `true` if the server sent the reasoning as parts of the content, as Mistral does. The
    /// reasoning is sent back in the same form.
    has_thinking_parts: bool,
    /// `true` if strings in `lists` and `extra_content` may contain private-use characters in place
    /// of lone surrogates.
    has_stand_ins: bool,
}

impl OpaqueFields {
    /// Collects the opaque data of `message`, which is a whole message if `whole` is `true`, or
    /// else a delta. Returns the size of the data in bytes.
    pub(super) fn take_from(&mut self, message: &mut WireMessage, whole: bool) -> usize {
        let lists = [
            ("reasoning_details", std::mem::take(&mut message.reasoning_details)),
            ("thinking_blocks", std::mem::take(&mut message.thinking_blocks)),
        ];
        let mut size = 0;
        for (name, list) in lists {
            let LenientValue::Json(list) = list else { continue };
            let Value::Array(pieces) = *list else { continue };
            size += pieces.iter().map(|piece| piece.to_string().len()).sum::<usize>();
            self.add(name, pieces, whole);
        }
        if let LenientValue::Json(content) = &message.extra_content
            && content.pointer("/google/thought_signature").is_some()
        {
            size += content.to_string().len();
            self.extra_content = Some(Value::clone(content));
        }
        size
    }

    fn add(&mut self, name: &str, pieces: Vec<Value>, whole: bool) {
        if pieces.is_empty() {
            return;
        }
        let list = self.lists.entry(name).or_insert_with(|| Value::Array(Vec::new()));
        let Value::Array(list) = list else { return };
        for piece in pieces {
            match list.iter_mut().rev().find(|block| !whole && is_continued(block, &piece)) {
                Some(block) => extend(block, piece),
                None => list.push(piece),
            }
        }
    }

    /// If `enabled` is `true`, marks the opaque data as possibly containing private-use characters
    /// in place of lone surrogates. [`save_to`](Self::save_to) then restores the original
    /// characters.
    pub(super) fn set_has_stand_ins(&mut self, enabled: bool) {
        self.has_stand_ins |= enabled;
    }

    pub(super) fn set_thinking_parts(&mut self) {
        self.has_thinking_parts = true;
    }

    /// Stores the opaque data of the message, the opaque data of its `calls` and the `origin` in
    /// `data`.
    pub(super) fn save_to(self, calls: &Map<String, Value>, origin: &Origin, data: &mut ProviderData) {
        let mut stored = Map::new();
        let mut fields = self.lists;
        fields.extend(self.extra_content.map(|content| ("extra_content".to_owned(), content)));
        if self.has_stand_ins {
            fields.values_mut().for_each(surrogates::join_surrogates);
        }
        if !fields.is_empty() {
            stored.insert("message".to_owned(), fields.into());
        }
        if !calls.is_empty() {
            stored.insert("calls".to_owned(), calls.clone().into());
        }
        if self.has_thinking_parts {
            stored.insert("thinking_parts".to_owned(), true.into());
        }
        if !stored.is_empty() {
            data.insert(CHAT_DATA_KEY, origin.add_to(stored));
        }
    }
}

/// Returns `true` if `piece` continues `block`, because both have the same type and the same index.
/// If `piece` has no index, a block with a signature is complete and is not continued.
fn is_continued(block: &Value, piece: &Value) -> bool {
    let is_same = |key| block.get(key) == piece.get(key);
    let is_signed = block.get("signature").is_some_and(|signature| !signature.is_null());
    is_same("type") && is_same("index") && (piece.get("index").is_some() || !is_signed)
}

/// Adds the fields of `piece` to `block`. Text fields are concatenated, and other fields are
/// replaced. Null is ignored.
fn extend(block: &mut Value, piece: Value) {
    const TEXTS: [&str; 4] = ["text", "summary", "data", "thinking"];
    let (Value::Object(block), Value::Object(piece)) = (block, piece) else { return };
    for (key, value) in piece {
        match (block.get_mut(&key), value) {
            (_, Value::Null) => {}
            (Some(Value::String(text)), Value::String(more)) if TEXTS.contains(&key.as_str()) => {
                text.push_str(&more);
            }
            (_, value) => {
                block.insert(key, value);
            }
        }
    }
}
