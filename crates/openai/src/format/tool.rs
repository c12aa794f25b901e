use std::{fmt, sync::Arc};

use haft_core::{Schema, ToolDefinition, ToolList, ToolName, Value};
use serde::{Serialize, Serializer};
use serde_json::{json, value::RawValue};

use super::raw;

/// Puts a tool into the form of the Chat Completions API.
///
/// # Examples
///
/// ```
/// use haft_core::{Schema, ToolDefinition, ToolName, json};
///
/// let schema = Schema::arguments(json!({"properties": {"x": {"type": "integer"}}, "required": ["x"]}))?;
/// let double = ToolDefinition::new(ToolName::new("double")?, schema).with_description("Doubles a number.");
/// assert_eq!(
///     haft_openai::tool(&double),
///     json!({"type": "function", "function": {
///         "name": "double",
///         "description": "Doubles a number.",
///         "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]},
///     }})
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn tool(definition: &ToolDefinition) -> Value {
    json!(WireTool::from(definition))
}

/// Puts a list of tools into the form of the Chat Completions API: the `tools` of a request.
///
/// The list keeps what is made of it: the same list is serialised once, however often it is sent.
pub fn tools(list: &ToolList) -> Arc<Tools> {
    list.rendering(|list| {
        let tools: Vec<_> = list.tools().iter().map(|tool| WireTool::from(tool.definition())).collect();
        Tools(raw(&tools))
    })
}

/// The `tools` of a request, serialised. [`Display`](fmt::Display) and [`Serialize`] give the JSON.
#[derive(Clone, Debug)]
pub struct Tools(Box<RawValue>);

impl fmt::Display for Tools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.get())
    }
}

/// Serialises with `serde_json` only.
impl Serialize for Tools {
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
    parameters: &'a Schema,
}

impl<'a> From<&'a ToolDefinition> for WireTool<'a> {
    fn from(definition: &'a ToolDefinition) -> Self {
        Self {
            function: Function {
                name: definition.name(),
                description: definition.description(),
                parameters: definition.input_schema(),
            },
        }
    }
}
