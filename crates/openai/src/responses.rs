//! Encoding of tools and conversations for OpenAI's Responses API, and decoding of its responses.
//! This module contains no HTTP client.
//!
//! A program with its own agent loop sends the tools from [`encode_tools`], decodes the calls of a
//! response with [`decode_tool_calls`], and executes them through a
//! [`Pipeline`](haft_core::Pipeline). It then sends the items from [`encode_tool_results`], either
//! after the unchanged items of the response or with `previous_response_id`.
//!
//! Source: [Function calling](https://platform.openai.com/docs/guides/function-calling),
//! `function_call` and `function_call_output`.
//!
//! # Examples
//!
//! ```
//! use haft_core::{tool, ToolCall, ToolOutput, ToolResult, toolset::ToolList};
//! use serde_json::json;
//! use haft_openai::responses;
//!
//! /// Adds two integers.
//! #[tool]
//! fn add(x: i64, y: i64) -> i64 {
//!     x + y
//! }
//!
//! let list = ToolList::new("mine", [Add]);
//! assert_eq!(responses::encode_tools(&list)[0]["name"], "add");
//!
//! let response = json!({"output": [
//!     {"type": "reasoning", "id": "rs_1", "summary": []},
//!     {"type": "function_call", "call_id": "call_1", "name": "add", "arguments": "{\"x\":17,\"y\":25}"},
//! ]});
//! assert_eq!(responses::decode_tool_calls(&response)?, [ToolCall::new("call_1", "add", r#"{"x":17,"y":25}"#)]);
//!
//! let result = ToolResult::done("call_1", "add", ToolOutput::from("42"));
//! assert_eq!(
//!     responses::encode_tool_results([&result]),
//!     [json!({"type": "function_call_output", "call_id": "call_1", "output": "42"})]
//! );
//! # Ok::<(), haft_core::model::ModelError>(())
//! ```

use std::sync::Arc;

use haft_core::{
    Message, ToolCall, ToolDefinition, ToolResult,
    model::{
        ChatResponse, ModelError,
        adapter::{provider_schema, provider_schemas, required_string, with_description},
    },
    schema::{ProviderSchema, SchemaTarget},
    toolset::ToolList,
};
use serde_json::{Value, json};

use crate::{
    format::{EncodingOptions, Input, MessageForm, encode_tool_result},
    reply::decode_responses_body,
};

/// Encodes a tool for the Responses API with `strict: false`. The field is required because this
/// API defaults to `true`.
pub fn encode_tool(definition: &ToolDefinition) -> Value {
    encode_tool_with_schema(definition, &provider_schema(definition, SchemaTarget::OpenAi))
}

/// Encodes a tool for the Responses API, with `strict: true` if its schema is compatible: see
/// [`encode_strict_tool`](crate::encode_strict_tool).
pub fn encode_strict_tool(definition: &ToolDefinition) -> Value {
    encode_tool_with_schema(definition, &provider_schema(definition, SchemaTarget::OpenAiStrict))
}

/// Encodes the tools of `list` as the `tools` field of a Responses request.
pub fn encode_tools(list: &ToolList) -> Vec<Value> {
    let tools = provider_schemas(list, SchemaTarget::OpenAi).into_iter();
    tools.map(|(definition, schema)| encode_tool_with_schema(definition, &schema)).collect()
}

/// Encodes a list of tools as the `tools` field of a Responses request, with `strict: true` for
/// each tool whose schema is compatible. A warning names up to five of the tools that are sent
/// without `strict`. The encoded list is not cached, so keep it for later requests.
pub fn encode_strict_tools(list: &ToolList) -> Vec<Value> {
    let tools = provider_schemas(list, SchemaTarget::OpenAiStrict).into_iter();
    tools.map(|(definition, schema)| encode_tool_with_schema(definition, &schema)).collect()
}

pub(crate) fn encode_tool_with_schema(definition: &ToolDefinition, schema: &ProviderSchema) -> Value {
    let (name, parameters, strict) = (definition.name(), &schema.value, schema.is_strict);
    with_description(
        definition,
        json!({"type": "function", "name": name, "parameters": parameters, "strict": strict}),
    )
}

/// Decodes the tool calls of `response`.
///
/// # Errors
///
/// Returns [`ModelError::InvalidResponse`] if `response` has no `output` array, or if a call lacks
/// an id, a name or arguments.
pub fn decode_tool_calls(response: &Value) -> Result<Vec<ToolCall>, ModelError> {
    let Some(items) = response.get("output").and_then(Value::as_array) else {
        return Err(ModelError::InvalidResponse("it has no list `output`".to_owned()));
    };
    let calls = items.iter().filter(|item| item.get("type").is_some_and(|it| it == "function_call"));
    calls
        .map(|call| {
            Ok(ToolCall::new(
                required_string(call, "call_id")?,
                required_string(call, "name")?,
                required_string(call, "arguments")?,
            ))
        })
        .collect()
}

/// Encodes tool results as items for the `input` of the next request.
pub fn encode_tool_results<'a>(results: impl IntoIterator<Item = &'a ToolResult>) -> Vec<Value> {
    let encoding = EncodingOptions::default();
    results.into_iter().map(|result| encode_tool_result(result, &encoding, MessageForm::default())).collect()
}

/// Encodes a conversation as the `input` field of a Responses request.
///
/// If [`decode_response`] stored reasoning in a message, the reasoning is included at its original
/// position, for example before the calls of the message.
pub fn encode_input<'a>(messages: impl IntoIterator<Item = &'a Arc<Message>>) -> Vec<Value> {
    Input::new(messages, &Arc::default()).to_values()
}

/// Decodes a non-streamed response of the Responses API.
///
/// # Errors
///
/// Returns an error if the response failed, was cancelled or interrupted, or is still in progress,
/// if it is empty or malformed, or if it ends inside a tool call.
pub fn decode_response(response: &Value) -> Result<ChatResponse, ModelError> {
    decode_responses_body(response)
}
