#[cfg(feature = "client")]
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use haft_core::{
    ToolCall, ToolDefinition,
    model::{
        ModelError,
        adapter::{provider_schema, required_string, with_description},
    },
    schema::SchemaTarget,
    toolset::ToolList,
};
#[cfg(feature = "client")]
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

#[cfg(feature = "client")]
use super::WireApi;
use super::names::{tool_name, wire_name};

/// Encodes a tool as a
/// [`FunctionDeclaration`](https://ai.google.dev/api/caching#FunctionDeclaration), with its schema in the field `parametersJsonSchema`. A
/// tool without parameters is encoded without a schema.
///
/// The schema is unchanged, except for the keywords beside a `$ref`: see
/// [`SchemaTarget::GeminiJsonSchema`]. A name that begins with a digit or a hyphen gets the prefix
/// `_.`, because Gemini rejects it. [`decode_tool_calls`] removes the prefix.
pub fn encode_tool(definition: &ToolDefinition) -> Value {
    function_declaration(definition, "parametersJsonSchema", SchemaTarget::GeminiJsonSchema)
}

/// Encodes the tools of `list` as a single element for the list `tools` of a request.
pub fn encode_tools(list: &ToolList) -> Value {
    function_declarations(list, encode_tool)
}

/// Encodes a tool with its schema in the field `parameters`, for models and services without
/// support for `parametersJsonSchema`. The schema is reduced to the [subset](SchemaTarget::Gemini)
/// of JSON Schema that this field supports, and the changes are logged.
pub fn encode_openapi_tool(definition: &ToolDefinition) -> Value {
    function_declaration(definition, "parameters", SchemaTarget::Gemini)
}

/// Encodes a list of tools like [`encode_tools`], but uses [`encode_openapi_tool`] for each tool.
pub fn encode_openapi_tools(list: &ToolList) -> Value {
    function_declarations(list, encode_openapi_tool)
}

fn function_declarations(list: &ToolList, form: fn(&ToolDefinition) -> Value) -> Value {
    let declarations: Vec<_> = list.tools().iter().map(|it| form(it.definition())).collect();
    json!({"functionDeclarations": declarations})
}

fn function_declaration(definition: &ToolDefinition, key: &str, target: SchemaTarget) -> Value {
    let mut declaration = json!({"name": wire_name(definition.name().as_str())});
    // The API expects no schema for a function without parameters.
    if let (false, Value::Object(declaration)) = (has_no_parameters(definition), &mut declaration) {
        declaration.insert(key.to_owned(), provider_schema(definition, target).value);
    }
    with_description(definition, declaration)
}

/// Encodes a tool for the Interactions API.
#[cfg(feature = "client")]
fn interactions_tool(definition: &ToolDefinition) -> Value {
    let mut tool = function_declaration(definition, "parameters", SchemaTarget::GeminiJsonSchema);
    if let Value::Object(fields) = &mut tool {
        fields.insert("type".to_owned(), "function".into());
    }
    tool
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

/// The encoded elements of the list `tools` in a request.
#[cfg(feature = "client")]
pub(crate) type EncodedTools = Vec<Box<RawValue>>;

/// A cache in a tool list: the encoded form of the list for each API.
#[cfg(feature = "client")]
#[derive(Default)]
struct ToolsCache(Mutex<HashMap<WireApi, Arc<EncodedTools>>>);

/// Returns the tools of `list`, encoded for `api`. The encoded list is cached. It is empty if there
/// are no tools.
#[cfg(feature = "client")]
pub(crate) fn cached_tools(list: &ToolList, api: WireApi) -> Arc<EncodedTools> {
    let cache = list.memoize(|_| ToolsCache::default());
    let mut cached = cache.0.lock().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(cached.entry(api).or_insert_with(|| Arc::new(encode_list(list, api))))
}

#[cfg(feature = "client")]
fn encode_list(list: &ToolList, api: WireApi) -> EncodedTools {
    let tools = match api {
        _ if list.is_empty() => Vec::new(),
        WireApi::GenerateContent => vec![encode_tools(list)],
        WireApi::Interactions => {
            list.tools().iter().map(|tool| interactions_tool(tool.definition())).collect()
        }
    };
    tools.iter().filter_map(|tool| to_raw_value(tool).ok()).collect()
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
            Ok(ToolCall::new(id, tool_name(&required_string(call, "name")?), arguments))
        })
        .collect()
}
