use haft_core::message::ProviderData;
use serde_json::Map;
use serde_json::Value;

use crate::{
    origin::Origin,
    wire::{Loose, WireMessage, half},
};

/// Under which name they are kept beside a message.
pub(crate) const ADAPTER: &str = "chat_completions";

/// What some servers send beside a message, for themselves: they want it back as it came, and others do not know it.
#[derive(Debug, Default)]
pub(super) struct Extras {
    /// OpenRouter's `reasoning_details`, and the `thinking_blocks` of gateways to Anthropic.
    lists: Map<String, Value>,
    /// Where Gemini puts the signature of what it thought.
    content: Option<Value>,
    /// Whether the reasoning came as parts of the content, as Mistral sends it.
    thinking_parts: bool,
    /// Whether there may be halves of characters in them.
    is_mended: bool,
}

impl Extras {
    /// Takes them out of a message or of a piece of one, and tells their size.
    pub(super) fn take(&mut self, message: &mut WireMessage, whole: bool) -> usize {
        let lists = [
            ("reasoning_details", std::mem::take(&mut message.reasoning_details)),
            ("thinking_blocks", std::mem::take(&mut message.thinking_blocks)),
        ];
        let mut size = 0;
        for (name, list) in lists {
            let Loose::Json(list) = list else { continue };
            let Value::Array(pieces) = *list else { continue };
            size += pieces.iter().map(|piece| piece.to_string().len()).sum::<usize>();
            self.add(name, pieces, whole);
        }
        if let Loose::Json(content) = &message.extra_content
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

    /// Says whether there may be halves of characters in what comes next.
    pub(super) fn expect_halves(&mut self, whether: bool) {
        self.is_mended |= whether;
    }

    pub(super) fn thinks_in_parts(&mut self) {
        self.thinking_parts = true;
    }

    /// Writes down what there is of them, and of the `calls`, in the data of a message.
    pub(super) fn keep(self, calls: &Map<String, Value>, origin: &Origin, data: &mut ProviderData) {
        let mut kept = Map::new();
        let mut fields = self.lists;
        fields.extend(self.content.map(|content| ("extra_content".to_owned(), content)));
        if self.is_mended {
            fields.values_mut().for_each(half::make_whole);
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

/// Whether a piece of a stream goes on with a block: that of its index, else one of its kind that is not signed yet.
fn is_continued(block: &Value, piece: &Value) -> bool {
    let is_same = |key| block.get(key) == piece.get(key);
    let is_signed = block.get("signature").is_some_and(|signature| !signature.is_null());
    is_same("type") && is_same("index") && (piece.get("index").is_some() || !is_signed)
}

/// Adds a piece to its block: texts go on, what else it says is new.
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
