//! Encoding of tools and tool results for Anthropic's Messages API, and decoding of its tool calls.
//! This module contains no HTTP client.
//!
//! A program with its own agent loop sends the tools from [`encode_tools`], decodes the calls of a
//! reply with [`decode_tool_calls`], and executes them through a [`Pipeline`](haft_core::Pipeline).
//! It then appends the unchanged reply and the message from [`encode_tool_results`] to the
//! conversation and sends the next request.
//!
//! Source: [Messages API](https://platform.claude.com/docs/en/api/messages), *tools*, `tool_use`
//! and `tool_result`.
//!
//! # Examples
//!
//! ```
//! use haft_core::{tool, ToolCall, ToolOutput, ToolResult, toolset::ToolList};
//! use serde_json::json;
//! use haft_openai::anthropic;
//!
//! /// Adds two integers.
//! #[tool]
//! fn add(x: i64, y: i64) -> i64 {
//!     x + y
//! }
//!
//! let list = ToolList::new("mine", [Add]);
//! assert_eq!(anthropic::encode_tools(&list)[0]["input_schema"]["required"], json!(["x", "y"]));
//!
//! let reply = json!({"role": "assistant", "content": [
//!     {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"x": 17, "y": 25}},
//! ]});
//! assert_eq!(anthropic::decode_tool_calls(&reply)?, [ToolCall::new("toolu_1", "add", r#"{"x":17,"y":25}"#)]);
//!
//! let result = ToolResult::done("toolu_1", "add", ToolOutput::from("42"));
//! assert_eq!(
//!     anthropic::encode_tool_results([&result]),
//!     json!({"role": "user", "content": [
//!         {"type": "tool_result", "tool_use_id": "toolu_1", "content": "42"},
//!     ]})
//! );
//! # Ok::<(), haft_core::model::ModelError>(())
//! ```

use haft_core::{
    ToolCall, ToolDefinition, ToolResult,
    content::Content,
    model::{
        ModelError,
        adapter::{encode_result_content, provider_schema, required_string, with_description},
    },
    schema::SchemaTarget,
    toolset::ToolList,
};
use serde_json::{Value, json};

/// Encodes a tool for the Messages API. The input schema is converted to [`SchemaTarget::OpenAi`]:
/// alternatives such as `anyOf` at the root are merged into one object, because the API rejects
/// them.
pub fn encode_tool(definition: &ToolDefinition) -> Value {
    let schema = provider_schema(definition, SchemaTarget::OpenAi).value;
    with_description(definition, json!({"name": definition.name(), "input_schema": schema}))
}

/// Encodes the tools of `list` as the `tools` field of a Messages request.
pub fn encode_tools(list: &ToolList) -> Vec<Value> {
    list.tools().iter().map(|it| encode_tool(it.definition())).collect()
}

/// Decodes the tool calls of `message`, a reply or an assistant message of the Messages API.
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
pub(crate) fn decode_tool_call(block: &Value) -> Result<ToolCall, ModelError> {
    let input = block.get("input").filter(|input| !input.is_null());
    let arguments = input.map_or_else(|| "{}".to_owned(), Value::to_string);
    Ok(ToolCall::new(required_string(block, "id")?, required_string(block, "name")?, arguments))
}

/// Encodes the results of all calls of one reply as the next user message. The API requires all
/// results in a single message.
pub fn encode_tool_results<'a>(results: impl IntoIterator<Item = &'a ToolResult>) -> Value {
    let blocks: Vec<_> = results.into_iter().map(encode_tool_result).collect();
    json!({"role": "user", "content": blocks})
}

/// Returns `true` if `piece` is an image in a format that the Messages API accepts. The API returns
/// 400 for other formats, and a rejected image in the conversation would make all later requests
/// fail.
pub(crate) fn is_supported_image(piece: &Content) -> bool {
    let Content::Image { media_type, .. } = piece else { return false };
    matches!(media_type.as_str(), "image/png" | "image/jpeg" | "image/gif" | "image/webp")
}

fn encode_tool_result(result: &ToolResult) -> Value {
    let content = encode_result_content(result, is_supported_image, |piece| match piece {
        Content::Image { data, media_type } if is_supported_image(piece) => {
            let source = json!({"type": "base64", "media_type": media_type, "data": data.to_base64()});
            json!({"type": "image", "source": source})
        }
        other => json!({"type": "text", "text": other.as_text()}),
    });
    tool_result_block(result, &result.call_id, content)
}

/// Returns the `tool_result` block for the call with the id `call_id`.
pub(crate) fn tool_result_block(result: &ToolResult, call_id: &str, content: Value) -> Value {
    let mut block = json!({"type": "tool_result", "tool_use_id": call_id, "content": content});
    if let (Some(_), Value::Object(block)) = (result.failure(), &mut block) {
        block.insert("is_error".to_owned(), Value::Bool(true));
    }
    block
}
