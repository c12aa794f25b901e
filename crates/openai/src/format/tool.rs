use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use haft_core::{
    ToolDefinition, ToolName,
    model::adapter::{provider_schema, provider_schemas},
    schema::{ProviderSchema, SchemaTarget},
    toolset::ToolList,
};
use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::{json, value::RawValue};

use super::to_raw_json;
#[cfg(feature = "client")]
use crate::responses;

/// Encodes a tool for the Chat Completions API, without `strict`.
///
/// # Examples
///
/// ```
/// use haft_core::{Schema, ToolDefinition, ToolName};
/// use serde_json::json;
///
/// let schema = Schema::for_arguments(json!({"properties": {"x": {"type": "integer"}}, "required": ["x"]}))?;
/// let double = ToolDefinition::new(ToolName::new("double")?, schema).with_description("Doubles a number.");
/// assert_eq!(
///     haft_openai::encode_tool(&double),
///     json!({"type": "function", "function": {
///         "name": "double",
///         "description": "Doubles a number.",
///         "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]},
///     }})
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn encode_tool(definition: &ToolDefinition) -> Value {
    encode_tool_for_target(definition, SchemaTarget::OpenAi)
}

/// Encodes a tool for the Chat Completions API, with `strict: true` if its schema is compatible.
/// The server then enforces the schema: see [`SchemaTarget::OpenAiStrict`].
///
/// # Examples
///
/// ```
/// use haft_core::{Schema, ToolDefinition, ToolName};
/// use serde_json::json;
///
/// let schema = Schema::for_arguments(json!({"properties": {"x": {"type": "integer"}}}))?;
/// let double = ToolDefinition::new(ToolName::new("double")?, schema);
/// assert_eq!(
///     haft_openai::encode_strict_tool(&double),
///     json!({"type": "function", "function": {
///         "name": "double",
///         "parameters": {
///             "type": "object",
///             "properties": {"x": {"type": ["integer", "null"]}},
///             "required": ["x"],
///             "additionalProperties": false,
///         },
///         "strict": true,
///     }})
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn encode_strict_tool(definition: &ToolDefinition) -> Value {
    encode_tool_for_target(definition, SchemaTarget::OpenAiStrict)
}

/// Encodes a tool for the Chat Completions API. Its schema is reduced to `target`, the JSON Schema
/// subset that a provider supports.
///
/// # Examples
///
/// ```
/// use haft_core::{Schema, schema::SchemaTarget, ToolDefinition, ToolName};
/// use serde_json::json;
///
/// let schema = Schema::for_arguments(json!({
///     "properties": {"at": {"$ref": "#/$defs/place"}},
///     "$defs": {"place": {"type": ["string", "null"], "title": "Place"}},
/// }))?;
/// let weather = ToolDefinition::new(ToolName::new("weather")?, schema);
/// assert_eq!(
///     haft_openai::encode_tool_for_target(&weather, SchemaTarget::SmallModel)["function"]["parameters"],
///     json!({"type": "object", "properties": {"at": {"type": "string"}}})
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn encode_tool_for_target(definition: &ToolDefinition, target: SchemaTarget) -> Value {
    json!(WireTool::of(definition, &provider_schema(definition, target)))
}

/// Encodes a list of tools as the `tools` field of a Chat Completions request.
///
/// The encoded list is cached in `list`.
pub fn encode_tools(list: &ToolList) -> Arc<EncodedTools> {
    encode_tools_for_target(list, SchemaTarget::OpenAi)
}

/// Encodes a list of tools for the Chat Completions API, with `strict: true` for each tool whose
/// schema is compatible.
///
/// A warning names up to five of the tools that are sent without `strict`. The encoded list is
/// cached in `list`, separately from the output of [`encode_tools`].
pub fn encode_strict_tools(list: &ToolList) -> Arc<EncodedTools> {
    encode_tools_for_target(list, SchemaTarget::OpenAiStrict)
}

/// Encodes a list of tools for the Chat Completions API. The schemas are reduced to `target`, the
/// JSON Schema subset that a provider supports.
///
/// The encoded list is cached in `list`, once per `target`.
pub fn encode_tools_for_target(list: &ToolList, target: SchemaTarget) -> Arc<EncodedTools> {
    cached_tools(list, ToolFormat::Chat, target)
}

/// The API for which a list of tools is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ToolFormat {
    /// The Chat Completions API.
    Chat,
    /// The Responses API.
    #[cfg(feature = "client")]
    Responses,
    /// The Responses API with tools that the model finds with its hosted tool search.
    #[cfg(feature = "client")]
    DeferredResponses,
}

/// A cache in a tool list: the encoded form of the list for each API and JSON Schema subset.
#[derive(Default)]
struct ToolsCache(Mutex<HashMap<(ToolFormat, SchemaTarget), Arc<EncodedTools>>>);

/// Returns the tools of `list`, encoded for `format` and `target`. The encoded list is cached.
pub(crate) fn cached_tools(list: &ToolList, format: ToolFormat, target: SchemaTarget) -> Arc<EncodedTools> {
    let cache = list.memoize(|_| ToolsCache::default());
    let mut cached = cache.0.lock().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(cached.entry((format, target)).or_insert_with(|| Arc::new(encode_list(list, format, target))))
}

fn encode_list(list: &ToolList, format: ToolFormat, target: SchemaTarget) -> EncodedTools {
    let schemas = provider_schemas(list, target);
    let encode = |(definition, schema): &(&ToolDefinition, ProviderSchema)| match format {
        ToolFormat::Chat => to_raw_json(&WireTool::of(definition, schema)),
        #[cfg(feature = "client")]
        ToolFormat::Responses => to_raw_json(&responses::encode_tool_with_schema(definition, schema)),
        #[cfg(feature = "client")]
        ToolFormat::DeferredResponses => {
            let mut tool = responses::encode_tool_with_schema(definition, schema);
            tool["defer_loading"] = true.into();
            to_raw_json(&tool)
        }
    };
    EncodedTools(schemas.iter().map(encode).collect())
}

/// The encoded `tools` field of a request. [`Display`](fmt::Display) and [`Serialize`] produce its
/// JSON.
#[derive(Clone, Debug)]
pub struct EncodedTools(Vec<Box<RawValue>>);

impl EncodedTools {
    #[cfg(feature = "client")]
    pub(super) fn iter(&self) -> impl Iterator<Item = &RawValue> {
        self.0.iter().map(|tool| &**tool)
    }
}

impl fmt::Display for EncodedTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tools: Vec<_> = self.0.iter().map(|tool| tool.get()).collect();
        write!(f, "[{}]", tools.join(","))
    }
}

/// Works only with the serializers of `serde_json`, because the encoded tools are a [`RawValue`].
impl Serialize for EncodedTools {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "function")]
struct WireTool<'a> {
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a ToolName,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    parameters: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
}

impl<'a> WireTool<'a> {
    fn of(definition: &'a ToolDefinition, schema: &'a ProviderSchema) -> Self {
        Self {
            function: Function {
                name: definition.name(),
                description: definition.description(),
                parameters: &schema.value,
                strict: schema.is_strict.then_some(true),
            },
        }
    }
}
