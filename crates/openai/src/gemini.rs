//! Encoding of tools and tool results for Gemini's `generateContent`, and decoding of its tool
//! calls. This module contains no HTTP client.
//!
//! A program with its own agent loop sends the tools from [`encode_tools`], decodes the calls of a
//! reply with [`decode_tool_calls`], and executes them through a [`Pipeline`](haft_core::Pipeline).
//! It then appends the unchanged reply and the content from [`encode_tool_results`] to the
//! conversation and sends the next request. The reply must not be changed, because the API may
//! require the thought signatures in it.
//!
//! Source: [`FunctionDeclaration`](https://ai.google.dev/api/caching#FunctionDeclaration),
//! `FunctionCall` and `FunctionResponse`. A declaration contains a plain JSON Schema in the field
//! `parametersJsonSchema`.
//!
//! # Examples
//!
//! ```
//! use haft_core::{tool, ToolCall, ToolOutput, ToolResult, toolset::ToolList};
//! use serde_json::json;
//! use haft_openai::gemini;
//!
//! /// Adds two integers.
//! #[tool]
//! fn add(x: i64, y: i64) -> i64 {
//!     x + y
//! }
//!
//! let list = ToolList::new("mine", [Add]);
//! assert_eq!(gemini::encode_tools(&list)["functionDeclarations"][0]["name"], "add");
//!
//! let content = json!({"role": "model", "parts": [
//!     {"functionCall": {"name": "add", "args": {"x": 17, "y": 25}}, "thoughtSignature": "c2ln"},
//! ]});
//! assert_eq!(gemini::decode_tool_calls(&content)?, [ToolCall::new("", "add", r#"{"x":17,"y":25}"#)]);
//!
//! let result = ToolResult::done("", "add", ToolOutput::from("42"));
//! assert_eq!(
//!     gemini::encode_tool_results([&result]),
//!     json!({"role": "user", "parts": [
//!         {"functionResponse": {"name": "add", "response": {"output": "42"}}},
//!     ]})
//! );
//! # Ok::<(), haft_core::model::ModelError>(())
//! ```

use haft_core::{
    ToolCall, ToolDefinition, ToolResult,
    model::{
        ModelError,
        adapter::{provider_schema, required_string, with_description},
    },
    schema::SchemaTarget,
    toolset::ToolList,
};
use serde_json::{Map, Value, json};

/// Encodes a tool as a function declaration, with the unchanged schema in the field
/// `parametersJsonSchema`. A tool without parameters is encoded without a schema.
pub fn encode_tool(definition: &ToolDefinition) -> Value {
    function_declaration(definition, "parametersJsonSchema", || definition.input_schema().as_value().clone())
}

/// Encodes the tools of `list` as a single element for the list `tools` of a request.
pub fn encode_tools(list: &ToolList) -> Value {
    function_declarations(list, encode_tool)
}

/// Encodes a tool with its schema in the field `parameters`, for models and services without
/// support for `parametersJsonSchema`. The schema is reduced to the [subset](SchemaTarget::Gemini)
/// of JSON Schema that this field supports, and the changes are logged.
pub fn encode_openapi_tool(definition: &ToolDefinition) -> Value {
    function_declaration(definition, "parameters", || provider_schema(definition, SchemaTarget::Gemini).value)
}

/// Encodes a list of tools like [`encode_tools`], but uses [`encode_openapi_tool`] for each tool.
pub fn encode_openapi_tools(list: &ToolList) -> Value {
    function_declarations(list, encode_openapi_tool)
}

fn function_declarations(list: &ToolList, form: fn(&ToolDefinition) -> Value) -> Value {
    let declarations: Vec<_> = list.tools().iter().map(|it| form(it.definition())).collect();
    json!({"functionDeclarations": declarations})
}

fn function_declaration(definition: &ToolDefinition, key: &str, schema: impl FnOnce() -> Value) -> Value {
    let mut declaration = json!({"name": definition.name()});
    // The API expects no schema for a function without parameters.
    if let (false, Value::Object(declaration)) = (has_no_parameters(definition), &mut declaration) {
        declaration.insert(key.to_owned(), schema());
    }
    with_description(definition, declaration)
}

/// Returns `true` if the input schema of `definition` declares no parameters.
fn has_no_parameters(definition: &ToolDefinition) -> bool {
    let is_empty_keyword = |(keyword, value): (&String, &Value)| match keyword.as_str() {
        "type" | "title" | "description" | "$schema" | "$id" | "$comment" | "$defs" | "definitions" => true,
        "properties" => value.as_object().is_some_and(Map::is_empty),
        "required" => value.as_array().is_some_and(Vec::is_empty),
        "additionalProperties" => value == &Value::Bool(false),
        _ => false,
    };
    definition.input_schema().as_value().as_object().is_some_and(|it| it.iter().all(is_empty_keyword))
}

/// Decodes the tool calls of `content`, the content of a reply (`candidates[0].content`). A call
/// without an id receives an empty id, and its result is encoded without an id.
///
/// # Errors
///
/// Returns [`ModelError::InvalidResponse`] if `content` is not an object, if its `parts` are not a
/// list, or if a call has no name. Missing `parts` are not an error, because an empty reply has
/// none.
pub fn decode_tool_calls(content: &Value) -> Result<Vec<ToolCall>, ModelError> {
    let parts = match content.get("parts") {
        Some(Value::Array(parts)) => parts.as_slice(),
        // The content of an empty reply has no `parts`.
        None | Some(Value::Null) if content.is_object() => &[],
        _ => return Err(ModelError::InvalidResponse("it has no list `parts`".to_owned())),
    };
    let calls = parts.iter().filter_map(|part| part.get("functionCall").filter(|call| !call.is_null()));
    calls
        .map(|call| {
            let id = call.get("id").and_then(Value::as_str).unwrap_or_default();
            let arguments = call
                .get("args")
                .filter(|args| !args.is_null())
                .map_or_else(|| "{}".to_owned(), Value::to_string);
            Ok(ToolCall::new(id, required_string(call, "name")?, arguments))
        })
        .collect()
}

/// Encodes the results of all calls of one reply as the next content of the conversation. The order
/// of `results` is kept.
///
/// The output of a call is sent in the field `output`. Structured output is sent as JSON, or as
/// text if it was shortened, has a warning, or has a separate text for the model. A failure is sent
/// in the field `error`. Media are replaced by a description.
pub fn encode_tool_results<'a>(results: impl IntoIterator<Item = &'a ToolResult>) -> Value {
    let parts: Vec<_> = results.into_iter().map(encode_tool_result).collect();
    json!({"role": "user", "parts": parts})
}

fn encode_tool_result(result: &ToolResult) -> Value {
    let text = result.model_text();
    let structured = result.output().and_then(|output| output.structured.as_ref());
    let data =
        structured.filter(|data| serde_json::from_str::<Value>(&text).is_ok_and(|read| read == **data));
    let value = data.cloned().unwrap_or_else(|| Value::String(text.into_owned()));
    let key = if result.failure().is_some() { "error" } else { "output" };
    let mut response = json!({"name": result.name, "response": {key: value}});
    if let (false, Value::Object(response)) = (result.call_id.is_empty(), &mut response) {
        response.insert("id".to_owned(), Value::String(result.call_id.clone()));
    }
    json!({"functionResponse": response})
}
