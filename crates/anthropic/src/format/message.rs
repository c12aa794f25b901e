use std::sync::Arc;

use haft_core::{
    Message, ToolResult,
    content::{Content, join_texts},
    message::MessageBody,
    model::{adapter::warnings_of, later_system_text},
};
use serde_json::{Value, json};

use super::{
    EncodingOptions,
    assistant::encode_reply,
    block::{Block, BlockKind},
    content::{encode_piece, encode_text},
};

/// The role of a message of the API, and the place of its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// A result, which precedes other content of the same user message.
    Result,
    User,
    Assistant,
}

/// The blocks of one message, cached in the message.
#[derive(Debug)]
pub(super) struct EncodedMessage {
    options: Arc<EncodingOptions>,
    /// `true` if the message is a result whose call id is sent unchanged: see
    /// [`KeptIds`](haft_core::model::KeptIds).
    is_id_kept: bool,
    pub(super) part: Part,
    pub(super) blocks: Vec<Block>,
}

/// The block of a system message at the start of a conversation, cached in the message. `None` if
/// its text is empty.
pub(super) struct SystemBlock(pub(super) Option<Block>);

impl EncodedMessage {
    pub(super) fn of(message: &Message, options: &Arc<EncodingOptions>, is_id_kept: bool) -> Arc<Self> {
        let cached = message.memoize(|message| Self::new(message, options, is_id_kept));
        // Do not use the cached blocks if another model created them with different options.
        if cached.is_id_kept == is_id_kept && cached.options == *options {
            cached
        } else {
            Arc::new(Self::new(message, options, is_id_kept))
        }
    }

    fn new(message: &Message, options: &Arc<EncodingOptions>, is_id_kept: bool) -> Self {
        let encode = |content: &[Content]| {
            let blocks = content.iter().filter_map(|piece| encode_piece(piece, options));
            blocks.map(|block| Block::new(&block, BlockKind::Other)).collect()
        };
        let (part, blocks) = match message.body() {
            // Only some models accept a later message with the role `system`, and only at some places.
            MessageBody::System { content } => {
                let text = Some(join_texts(content)).filter(|text| !text.trim().is_empty());
                let text = text.map(|text| Content::text(later_system_text(&text)));
                (Part::User, encode(text.as_slice()))
            }
            MessageBody::User { content } => (Part::User, encode(content)),
            MessageBody::Assistant(reply) => (Part::Assistant, encode_reply(reply, options)),
            MessageBody::Tool(result) => {
                let block = result_block(result, options, is_id_kept);
                (Part::Result, vec![Block::new(&block, BlockKind::Other)])
            }
        };
        Self { options: Arc::clone(options), is_id_kept, part, blocks }
    }
}

impl SystemBlock {
    pub(super) fn of(message: &Message) -> Arc<Self> {
        message.memoize(|message| {
            Self(encode_text(&message.text()).map(|block| Block::new(&block, BlockKind::Other)))
        })
    }
}

/// Encodes `result` as a `tool_result` block.
pub(super) fn result_block(result: &ToolResult, options: &EncodingOptions, is_id_kept: bool) -> Value {
    let id = options.call_ids.id_of_result(&result.call_id, is_id_kept);
    let mut block =
        json!({"type": "tool_result", "tool_use_id": id, "content": result_content(result, options)});
    if let (Some(_), Value::Object(block)) = (result.failure(), &mut block) {
        block.insert("is_error".to_owned(), Value::Bool(true));
    }
    block
}

/// The text of a failure without a message. The API rejects an error without content.
const UNKNOWN_FAILURE: &str = "The tool failed.";

/// Encodes the content of `result` as a string if it is one text, or else as a list of blocks.
/// Warnings are the last block. A text of whitespace, which the API rejects, becomes empty.
fn result_content(result: &ToolResult, options: &EncodingOptions) -> Value {
    match result.output().map(|output| output.content.as_slice()) {
        None | Some([] | [Content::Text { .. } | Content::Json { .. }]) => {
            let text = result.model_text();
            match (text.trim().is_empty(), result.failure()) {
                (false, _) => json!(text),
                (true, None) => json!(""),
                (true, Some(_)) => json!(UNKNOWN_FAILURE),
            }
        }
        Some(content) => {
            let pieces = content.iter().chain(warnings_of(result).as_slice()).cloned().collect::<Vec<_>>();
            pieces.iter().filter_map(|piece| encode_piece(piece, options)).collect()
        }
    }
}
