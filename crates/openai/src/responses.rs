//! The format of OpenAI's Responses API, in both directions and without a client.
//!
//! For programs with their own loop: send the [`tools`], decode the [`tool_calls`] of a response,
//! execute them through a [`Pipeline`](haft_core::Pipeline), and send the [`tool_results`] back,
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
//! assert_eq!(responses::tools(&list)[0]["name"], "add");
//!
//! let response = json!({"output": [
//!     {"type": "reasoning", "id": "rs_1", "summary": []},
//!     {"type": "function_call", "call_id": "call_1", "name": "add", "arguments": "{\"x\":17,\"y\":25}"},
//! ]});
//! assert_eq!(responses::tool_calls(&response)?, [ToolCall::new("call_1", "add", r#"{"x":17,"y":25}"#)]);
//!
//! let result = ToolResult::done("call_1", "add", ToolOutput::from("42"));
//! assert_eq!(
//!     responses::tool_results([&result]),
//!     [json!({"type": "function_call_output", "call_id": "call_1", "output": "42"})]
//! );
//! # Ok::<(), haft_core::model::ModelError>(())
//! ```

use std::sync::Arc;

use haft_core::{
    Message, ToolCall, ToolDefinition, ToolResult,
    model::{ChatResponse, ModelError},
    schema::{ProviderSchema, SchemaTarget},
    toolset::ToolList,
};
use serde_json::{Value, json};

use crate::{
    format::{EncodingOptions, Input, derive, derive_all, output},
    reply::response_of_items,
    tool_json::{required_string, with_description},
};

/// Encodes a tool with `strict: false`, because strict is the default of this API.
pub fn tool(definition: &ToolDefinition) -> Value {
    encode_tool(definition, &derive(definition, SchemaTarget::OpenAi))
}

/// Encodes a tool, with `strict` if its schema supports it: see
/// [`strict_tool`](crate::strict_tool).
pub fn strict_tool(definition: &ToolDefinition) -> Value {
    encode_tool(definition, &derive(definition, SchemaTarget::OpenAiStrict))
}

/// Encodes a list of tools: the `tools` of a request.
pub fn tools(list: &ToolList) -> Vec<Value> {
    let tools = derive_all(list, SchemaTarget::OpenAi).into_iter();
    tools.map(|(definition, wire)| encode_tool(definition, &wire)).collect()
}

/// Encodes a list of tools, with `strict` for each tool with a compatible schema. A warning lists
/// the others. The result is not cached: keep it for later requests.
pub fn strict_tools(list: &ToolList) -> Vec<Value> {
    let tools = derive_all(list, SchemaTarget::OpenAiStrict).into_iter();
    tools.map(|(definition, wire)| encode_tool(definition, &wire)).collect()
}

pub(crate) fn encode_tool(definition: &ToolDefinition, wire: &ProviderSchema) -> Value {
    let (name, schema, strict) = (definition.name(), &wire.value, wire.strict);
    with_description(
        definition,
        json!({"type": "function", "name": name, "parameters": schema, "strict": strict}),
    )
}

/// Decodes the calls of a response.
///
/// # Errors
///
/// Fails with [`ModelError::InvalidResponse`] for anything else.
pub fn tool_calls(response: &Value) -> Result<Vec<ToolCall>, ModelError> {
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

/// Encodes results as items for the `input` of the next request.
pub fn tool_results<'a>(results: impl IntoIterator<Item = &'a ToolResult>) -> Vec<Value> {
    let encoding = EncodingOptions::default();
    results.into_iter().map(|result| output(result, &encoding)).collect()
}

/// Encodes a conversation: the `input` of a request.
///
/// Includes the reasoning that [`response`] stored in a message, before its calls.
pub fn input<'a>(messages: impl IntoIterator<Item = &'a Arc<Message>>) -> Vec<Value> {
    Input::new(messages, &Arc::default()).to_values()
}

/// Decodes a non-streamed response.
///
/// # Errors
///
/// Fails for a response with an error, an empty or malformed response, and an incomplete call.
pub fn response(response: &Value) -> Result<ChatResponse, ModelError> {
    response_of_items(response)
}
