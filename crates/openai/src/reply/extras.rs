use haft_core::message::ProviderData;
use serde_json::Map;
use serde_json::Value;

use crate::{
    origin::Origin,
    wire::{LenientString, WireMessage, surrogates},
};

/// The key in `provider_data`.
pub(crate) const ADAPTER: &str = "chat_completions";

/// Data that a server wants back unchanged with the message.
#[derive(Debug, Default)]
pub(super) struct Extras {
    /// OpenRouter's `reasoning_details`, and the `thinking_blocks` of gateways to Anthropic.
    lists: Map<String, Value>,
    /// Gemini's `extra_content` with the signature of its reasoning.
    content: Option<Value>,
    /// Set if the reasoning came as parts of the content (Mistral).
    thinking_parts: bool,
    /// Set if strings may contain stand-ins for lone surrogates.
    is_mended: bool,
}

impl Extras {
    /// Takes the data of a message or delta. Returns its size in bytes.
    pub(super) fn take(&mut self, message: &mut WireMessage, whole: bool) -> usize {
        let lists = [
            ("reasoning_details", std::mem::take(&mut message.reasoning_details)),
            ("thinking_blocks", std::mem::take(&mut message.thinking_blocks)),
        ];
        let mut size = 0;
        for (name, list) in lists {
            let LenientString::Json(list) = list else { continue };
            let Value::Array(pieces) = *list else { continue };
            size += pieces.iter().map(|piece| piece.to_string().len()).sum::<usize>();
            self.add(name, pieces, whole);
        }
        if let LenientString::Json(content) = &message.extra_content
            && content.pointer("/google/thought_signature").is_some()
        {
            size += content.to_string().len();
            self.content = Some(Value::clone(content));
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

    /// Sets whether the current event contains stand-ins for lone surrogates.
    pub(super) fn expect_surrogates(&mut self, whether: bool) {
        self.is_mended |= whether;
    }

    pub(super) fn thinks_in_parts(&mut self) {
        self.thinking_parts = true;
    }

    /// Writes the data, and that of the `calls`, into `provider_data`.
    pub(super) fn keep(self, calls: &Map<String, Value>, origin: &Origin, data: &mut ProviderData) {
        let mut kept = Map::new();
        let mut fields = self.lists;
        fields.extend(self.content.map(|content| ("extra_content".to_owned(), content)));
        if self.is_mended {
            fields.values_mut().for_each(surrogates::make_whole);
        }
        if !fields.is_empty() {
            kept.insert("message".to_owned(), fields.into());
        }
        if !calls.is_empty() {
            kept.insert("calls".to_owned(), calls.clone().into());
        }
        if self.thinking_parts {
            kept.insert("thinking_parts".to_owned(), true.into());
        }
        if !kept.is_empty() {
            data.insert(ADAPTER, origin.mark(kept));
        }
    }
}

/// Returns `true` if a piece continues a block: the one with its index, else an unsigned one of its
/// type.
fn is_continued(block: &Value, piece: &Value) -> bool {
    let is_same = |key| block.get(key) == piece.get(key);
    let is_signed = block.get("signature").is_some_and(|signature| !signature.is_null());
    is_same("type") && is_same("index") && (piece.get("index").is_some() || !is_signed)
}

/// Adds a piece to its block. Texts are appended, other fields replaced.
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
