//! Encoding of tools and messages for the Messages API.
//!
//! The JSON text of the blocks of a message or of a tool list is cached in the message or list. A
//! request body is assembled from these texts, so only new messages are encoded.

mod assistant;
mod block;
mod content;
mod conversation;
mod message;
mod tool;

use haft_core::{
    ToolCall, ToolResult,
    model::{
        CallIdFormat, CallIds, ModelError,
        adapter::{Origin, required_string},
    },
};
use serde_json::{Value, json};

pub(crate) use assistant::kind_of;
#[cfg(feature = "client")]
pub(crate) use assistant::markers_of;
#[cfg(feature = "client")]
pub(crate) use block::{with_member, write_list};
pub(crate) use content::PDF;
pub(crate) use conversation::Conversation;
#[cfg(feature = "client")]
pub(crate) use conversation::Messages;
#[cfg(feature = "client")]
pub(crate) use tool::{EncodedTool, cached_tools, placeholder};
pub use tool::{encode_strict_tool, encode_tool, encode_tools};

/// The key under which the blocks of a reply are stored in its provider data.
pub(crate) const DATA_KEY: &str = "anthropic";

/// The separator between two texts of a reply with another block between them, and between two
/// thoughts.
pub(crate) const SEPARATOR: &str = "\n\n";

/// The format of the ids of calls. Source: the error message "String should match pattern
/// '^[a-zA-Z0-9_-]+$'", and its maximum length of 64.
pub(crate) const CALL_IDS: CallIdFormat = CallIdFormat::WordOfAtMost(64);

/// Options for encoding messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EncodingOptions {
    /// If `true`, images are sent. Otherwise, each image is replaced by a description.
    pub(crate) sends_images: bool,
    /// If `true`, documents are sent. Otherwise, a PDF document is replaced by a description, and a
    /// text document by its text.
    pub(crate) sends_documents: bool,
    /// If `true`, the model can cite documents.
    pub(crate) cites_documents: bool,
    /// The ids of calls.
    pub(crate) call_ids: CallIds,
    /// The server that receives the messages. Blocks from other servers are omitted.
    pub(crate) origin: Origin,
}

/// The options for histories: all media, and blocks from all servers.
impl Default for EncodingOptions {
    fn default() -> Self {
        Self {
            sends_images: true,
            sends_documents: true,
            cites_documents: false,
            call_ids: CallIds::new(CALL_IDS, ""),
            origin: Origin::default(),
        }
    }
}

/// Encodes the results of all calls of one reply as the next user message. The API requires all
/// results in a single message.
///
/// # Examples
///
/// ```
/// use haft_core::{ToolOutput, ToolResult};
/// use serde_json::json;
///
/// let result = ToolResult::done("toolu_1", "add", ToolOutput::from("42"));
/// assert_eq!(
///     haft_anthropic::encode_tool_results([&result]),
///     json!({"role": "user", "content": [
///         {"type": "tool_result", "tool_use_id": "toolu_1", "content": "42"},
///     ]})
/// );
/// ```
pub fn encode_tool_results<'a>(results: impl IntoIterator<Item = &'a ToolResult>) -> Value {
    let options = EncodingOptions::default();
    let blocks = results.into_iter().map(|result| message::result_block(result, &options, false));
    json!({"role": "user", "content": blocks.collect::<Vec<_>>()})
}

/// Decodes the tool calls of `message`, a reply or an assistant message of the Messages API.
///
/// # Examples
///
/// ```
/// use haft_core::ToolCall;
/// use serde_json::json;
///
/// let reply = json!({"role": "assistant", "content": [
///     {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"x": 17, "y": 25}},
/// ]});
/// let call = ToolCall::new("toolu_1", "add", r#"{"x":17,"y":25}"#);
/// assert_eq!(haft_anthropic::decode_tool_calls(&reply)?, [call]);
/// # Ok::<(), haft_core::model::ModelError>(())
/// ```
///
/// # Errors
///
/// Returns [`ModelError::InvalidResponse`] if the `content` of `message` is neither a list nor a
/// string, or if a call has no id or name.
pub fn decode_tool_calls(message: &Value) -> Result<Vec<ToolCall>, ModelError> {
    let blocks = match message.get("content") {
        Some(Value::Array(blocks)) => blocks,
        // `content` is a string if the message contains only text.
        Some(Value::String(_)) => return Ok(Vec::new()),
        _ => {
            return Err(ModelError::InvalidResponse(
                "it has no `content`: a list of blocks, or text".to_owned(),
            ));
        }
    };
    let calls = blocks.iter().filter(|block| block.get("type").is_some_and(|it| it == "tool_use"));
    calls.map(decode_tool_call).collect()
}

/// Decodes `block`, a `tool_use` block.
fn decode_tool_call(block: &Value) -> Result<ToolCall, ModelError> {
    let input = block.get("input").filter(|input| !input.is_null());
    let arguments = input.map_or_else(|| "{}".to_owned(), Value::to_string);
    Ok(ToolCall::new(required_string(block, "id")?, required_string(block, "name")?, arguments))
}
