use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use haft_core::{
    ToolDefinition, ToolName,
    schema::{Wire, WireProfile},
    toolset::ToolList,
};
use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::{json, value::RawValue};

use super::raw;
#[cfg(feature = "client")]
use crate::responses;

/// How many of the tools that cannot be strict are named in a warning.
const NAMED: usize = 5;

/// Puts a tool into the form of the Chat Completions API.
///
/// # Examples
///
/// ```
/// use haft_core::{Schema, ToolDefinition, ToolName};
/// use serde_json::json;
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
    tool_as(definition, WireProfile::OpenAi)
}

/// Puts a tool into the form of the Chat Completions API, with `strict` where its schema allows that: then the model
/// cannot but write arguments that fit. See [`WireProfile::OpenAiStrict`].
///
/// # Examples
///
/// ```
/// use haft_core::{Schema, ToolDefinition, ToolName};
/// use serde_json::json;
///
/// let schema = Schema::arguments(json!({"properties": {"x": {"type": "integer"}}}))?;
/// let double = ToolDefinition::new(ToolName::new("double")?, schema);
/// assert_eq!(
///     haft_openai::strict_tool(&double),
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
pub fn strict_tool(definition: &ToolDefinition) -> Value {
    tool_as(definition, WireProfile::OpenAiStrict)
}

/// Puts a tool into the form of the Chat Completions API, with what a provider can read of its schema.
///
/// # Examples
///
/// ```
/// use haft_core::{Schema, schema::WireProfile, ToolDefinition, ToolName};
/// use serde_json::json;
///
/// let schema = Schema::arguments(json!({
///     "properties": {"at": {"$ref": "#/$defs/place"}},
///     "$defs": {"place": {"type": ["string", "null"], "title": "Place"}},
/// }))?;
/// let weather = ToolDefinition::new(ToolName::new("weather")?, schema);
/// assert_eq!(
///     haft_openai::tool_as(&weather, WireProfile::Small)["function"]["parameters"],
///     json!({"type": "object", "properties": {"at": {"type": "string"}}})
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn tool_as(definition: &ToolDefinition, profile: WireProfile) -> Value {
    json!(WireTool::of(definition, &derive(definition, profile)))
}

/// Puts a list of tools into the form of the Chat Completions API: the `tools` of a request.
///
/// The list keeps what is made of it: the same list is serialised once, however often it is sent.
pub fn tools(list: &ToolList) -> Arc<Tools> {
    tools_as(list, WireProfile::OpenAi)
}

/// Puts a list of tools into the form of the Chat Completions API, with `strict` for each whose schema allows that.
///
/// The others are sent without, and named in one warning. The list keeps this beside what [`tools`] makes of it.
pub fn strict_tools(list: &ToolList) -> Arc<Tools> {
    tools_as(list, WireProfile::OpenAiStrict)
}

/// Puts a list of tools into the form of the Chat Completions API, with what a provider can read of their schemas.
///
/// The list keeps what is made of it for each profile.
pub fn tools_as(list: &ToolList, profile: WireProfile) -> Arc<Tools> {
    rendered(list, Shape::Chat, profile)
}

/// Whose form a tool is put into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Shape {
    /// That of the Chat Completions API.
    Chat,
    /// That of the Responses API.
    #[cfg(feature = "client")]
    Responses,
}

/// What is kept beside a list.
#[derive(Default)]
struct Rendered(Mutex<HashMap<(Shape, WireProfile), Arc<Tools>>>);

/// The tools of a list in some form, serialised once.
pub(crate) fn rendered(list: &ToolList, shape: Shape, profile: WireProfile) -> Arc<Tools> {
    let rendered = list.rendering(|_| Rendered::default());
    let mut rendered = rendered.0.lock().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(rendered.entry((shape, profile)).or_insert_with(|| Arc::new(render(list, shape, profile))))
}

fn render(list: &ToolList, shape: Shape, profile: WireProfile) -> Tools {
    let wires = derive_all(list, profile);
    let wires = wires.iter();
    Tools(match shape {
        Shape::Chat => {
            raw(&wires.map(|(definition, wire)| WireTool::of(definition, wire)).collect::<Vec<_>>())
        }
        #[cfg(feature = "client")]
        Shape::Responses => {
            raw(&wires.map(|(definition, wire)| responses::rendered(definition, wire)).collect::<Vec<_>>())
        }
    })
}

/// What is sent of the schema of a tool. What that loses is in the trace.
pub(crate) fn derive(definition: &ToolDefinition, profile: WireProfile) -> Wire {
    let wire = definition.input_schema().wire(profile);
    for loss in &wire.losses {
        tracing::debug!(tool = %definition.name(), %loss, "a schema is not sent as it is");
    }
    wire
}

/// What is sent of the schemas of a list. One warning tells of those that were to be strict and cannot be.
pub(crate) fn derive_all(list: &ToolList, profile: WireProfile) -> Vec<(&ToolDefinition, Wire)> {
    let tools = list.tools().iter().map(|tool| tool.definition());
    let wires: Vec<_> = tools.map(|definition| (definition, derive(definition, profile))).collect();
    let obstacle = |(definition, wire): &(&ToolDefinition, Wire)| {
        wire.obstacle().map(|obstacle| format!("{}: {obstacle}", definition.name()))
    };
    let obstacles: Vec<_> = wires.iter().filter_map(obstacle).collect();
    if !obstacles.is_empty() {
        let tools = obstacles.get(..NAMED).unwrap_or(&obstacles).join("; ");
        tracing::warn!(count = obstacles.len(), tools, "some tools cannot be sent with `strict`");
    }
    wires
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
    parameters: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
}

impl<'a> WireTool<'a> {
    fn of(definition: &'a ToolDefinition, wire: &'a Wire) -> Self {
        Self {
            function: Function {
                name: definition.name(),
                description: definition.description(),
                parameters: &wire.value,
                strict: wire.strict.then_some(true),
            },
        }
    }
}
