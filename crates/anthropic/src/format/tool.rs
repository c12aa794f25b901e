#[cfg(feature = "client")]
mod list;

use haft_core::{
    ToolDefinition,
    model::adapter::{provider_schema, with_description},
    schema::{ProviderSchema, SchemaTarget},
    toolset::ToolList,
};
use serde_json::{Value, json};

#[cfg(feature = "client")]
pub(crate) use list::{EncodedTool, cached_tools, placeholder};

/// Encodes a tool for the Messages API. The input schema is converted to [`SchemaTarget::OpenAi`]:
/// alternatives such as `anyOf` at the root are merged into one object, because the API rejects
/// them.
///
/// # Examples
///
/// ```
/// use haft_core::{Schema, ToolDefinition, ToolName};
/// use serde_json::json;
///
/// let schema = Schema::for_arguments(json!({"properties": {"x": {"type": "integer"}}, "required": ["x"]}))?;
/// let double = ToolDefinition::new(ToolName::new("double")?, schema);
/// assert_eq!(
///     haft_anthropic::encode_tool(&double),
///     json!({
///         "name": "double",
///         "input_schema": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]},
///     })
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn encode_tool(definition: &ToolDefinition) -> Value {
    encode_with(definition, &provider_schema(definition, SchemaTarget::OpenAi))
}

/// Encodes a tool for the Messages API, with `strict: true` if its schema is compatible: see
/// [`SchemaTarget::AnthropicStrict`]. The API accepts at most 20 strict tools in a request.
///
/// # Examples
///
/// ```
/// use haft_core::{Schema, ToolDefinition, ToolName};
/// use serde_json::json;
///
/// let schema = Schema::for_arguments(json!({"properties": {"x": {"type": "integer"}}, "required": ["x"]}))?;
/// let double = ToolDefinition::new(ToolName::new("double")?, schema);
/// let tool = haft_anthropic::encode_strict_tool(&double);
/// assert_eq!((&tool["strict"], &tool["input_schema"]["additionalProperties"]), (&json!(true), &json!(false)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn encode_strict_tool(definition: &ToolDefinition) -> Value {
    encode_with(definition, &provider_schema(definition, SchemaTarget::AnthropicStrict))
}

/// Encodes the tools of `list` as the `tools` field of a Messages request.
///
/// # Examples
///
/// ```
/// use haft_core::{tool, toolset::ToolList};
/// use serde_json::json;
///
/// /// Adds two integers.
/// #[tool]
/// fn add(x: i64, y: i64) -> i64 {
///     x + y
/// }
///
/// let tools = haft_anthropic::encode_tools(&ToolList::new("mine", [Add]));
/// assert_eq!(tools[0]["input_schema"]["required"], json!(["x", "y"]));
/// ```
pub fn encode_tools(list: &ToolList) -> Vec<Value> {
    list.tools().iter().map(|tool| encode_tool(tool.definition())).collect()
}

fn encode_with(definition: &ToolDefinition, schema: &ProviderSchema) -> Value {
    let mut tool =
        with_description(definition, json!({"name": definition.name(), "input_schema": schema.value}));
    if let (true, Value::Object(tool)) = (schema.is_strict, &mut tool) {
        tool.insert("strict".to_owned(), Value::Bool(true));
    }
    tool
}
