use std::{any::TypeId, fmt, sync::Arc};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{IntoToolOutput, Policy, ToolName};
use crate::{Schema, SchemaError};

/// What a tool is called, does, takes and returns. Cheap to clone: one `Arc`.
///
/// As JSON it has what may be shown: name, title, description, schemas, annotations, metadata, deprecation.
/// [`Display`](fmt::Display) is the tool's line in a prompt.
///
/// # Examples
///
/// ```
/// use haft_core::{Schema, ToolDefinition, ToolName};
/// use serde_json::json;
///
/// let schema = Schema::arguments(json!({"properties": {"x": {"type": "integer"}}, "required": ["x"]}))?;
/// let add = ToolDefinition::new(ToolName::new("add")?, schema).with_description("Adds\ntwo integers.");
/// assert_eq!(
///     add.to_string(),
///     r#"add: Adds two integers. Arguments: {"type":"object","properties":{"x":{"type":"integer"}},"required":["x"]}"#
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Serialize)]
#[serde(transparent)]
pub struct ToolDefinition(Arc<Parts>);

#[derive(Clone, Serialize)]
struct Parts {
    name: ToolName,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    description: String,
    input_schema: Schema,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_schema: Option<Schema>,
    #[serde(skip)]
    defect: Option<String>,
    #[serde(skip)]
    policy: Policy,
    #[serde(skip)]
    state: Vec<StateType>,
    #[serde(skip_serializing_if = "Annotations::is_empty")]
    annotations: Annotations,
    #[serde(skip_serializing_if = "Map::is_empty")]
    metadata: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deprecated: Option<Deprecation>,
}

/// Hints about a tool's behaviour, in the words of MCP. They come from outside: never trusted, never sent to a model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Annotations {
    /// It changes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// It may destroy what is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destructive: Option<bool>,
    /// Calling twice has the effect of calling once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// It meets a world that is not closed, such as the web.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_world: Option<bool>,
}

impl Annotations {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// That a tool should no longer be used, and what to use in its place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deprecation {
    /// The name of the tool that replaces it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replacement: Option<String>,
    /// Why, or what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A type that a tool asks its [`State`](crate::State) for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StateType {
    id: TypeId,
    name: &'static str,
}

impl StateType {
    /// Names the type `T`.
    pub fn of<T: 'static>() -> Self {
        Self { id: TypeId::of::<T>(), name: std::any::type_name::<T>() }
    }

    pub(crate) fn id(self) -> TypeId {
        self.id
    }

    /// The type's path, for messages.
    pub fn name(self) -> &'static str {
        self.name
    }
}

impl ToolDefinition {
    /// Defines a tool by the two things that every tool has. A schema whose root cannot be an object is a
    /// [defect](Self::defect).
    pub fn new(name: ToolName, input_schema: Schema) -> Self {
        Self(Arc::new(Parts {
            name,
            title: None,
            description: String::new(),
            input_schema: Schema::object(),
            output_schema: None,
            defect: None,
            policy: Policy::default(),
            state: Vec::new(),
            annotations: Annotations::default(),
            metadata: Map::new(),
            deprecated: None,
        }))
        .with_input_schema(input_schema)
    }

    /// Defines a tool by its name, the type of its arguments and the type that it returns.
    ///
    /// What is wrong with them is kept as a [defect](Self::defect).
    pub fn of<A: JsonSchema, R: IntoToolOutput>(name: &str) -> Self {
        Self::inferred::<R>(name, Schema::of::<A>().and_then(Schema::into_arguments))
    }

    /// Defines a tool by its name, what it takes, and the type that it returns.
    pub(crate) fn inferred<R: IntoToolOutput>(name: &str, input: Result<Schema, SchemaError>) -> Self {
        let (name, bad_name) = match ToolName::new(name) {
            Ok(name) => (name, None),
            Err(error) => (ToolName::from_foreign(name), Some(error.to_string())),
        };
        let (input, bad_input) = match input {
            Ok(schema) => (schema, None),
            Err(error) => (Schema::object(), Some(format!("its arguments: {error}"))),
        };
        let (output, bad_output) = match R::output_schema() {
            None => (None, None),
            Some(Ok(schema)) => (Some(schema), None),
            Some(Err(error)) => (None, Some(format!("its output: {error}"))),
        };
        let definition = Self::new(name, input);
        let defect = bad_name.or(bad_input).or(bad_output);
        definition.with(|parts| (parts.output_schema, parts.defect) = (output, defect))
    }

    /// The name by which models call it.
    pub fn name(&self) -> &ToolName {
        &self.0.name
    }

    /// The name that people are shown.
    pub fn title(&self) -> Option<&str> {
        self.0.title.as_deref()
    }

    /// What the tool does, for the model; empty where nobody said.
    pub fn description(&self) -> &str {
        &self.0.description
    }

    /// What it takes: an object schema.
    pub fn input_schema(&self) -> &Schema {
        &self.0.input_schema
    }

    /// What it returns, with any root, where that is declared.
    pub fn output_schema(&self) -> Option<&Schema> {
        self.0.output_schema.as_ref()
    }

    /// Why the tool cannot be used, if it cannot. Such a tool is withheld from models, and a
    /// [`Toolset`](crate::Toolset) that was given it reports it when it is checked.
    pub fn defect(&self) -> Option<&str> {
        self.0.defect.as_deref()
    }

    /// How the host runs it.
    pub fn policy(&self) -> &Policy {
        &self.0.policy
    }

    /// The types of state that it asks for.
    pub fn state(&self) -> &[StateType] {
        &self.0.state
    }

    /// Hints from outside.
    pub fn annotations(&self) -> &Annotations {
        &self.0.annotations
    }

    /// Free data from outside.
    pub fn metadata(&self) -> &Map<String, Value> {
        &self.0.metadata
    }

    /// Whether it should no longer be used, and why.
    pub fn deprecated(&self) -> Option<&Deprecation> {
        self.0.deprecated.as_ref()
    }

    /// Changes the name.
    #[must_use]
    pub fn with_name(self, name: ToolName) -> Self {
        self.with(|parts| parts.name = name)
    }

    /// Sets the name that people are shown.
    #[must_use]
    pub fn with_title(self, title: impl Into<String>) -> Self {
        self.with(|parts| parts.title = Some(title.into()))
    }

    /// Sets the description.
    #[must_use]
    pub fn with_description(self, description: impl Into<String>) -> Self {
        self.with(|parts| parts.description = description.into())
    }

    /// Sets what the tool takes.
    #[must_use]
    pub fn with_input_schema(self, schema: Schema) -> Self {
        self.with(|parts| match schema.into_arguments() {
            Ok(schema) => parts.input_schema = schema,
            Err(error) => parts.defect = Some(format!("its arguments: {error}")),
        })
    }

    /// Sets what the tool returns; results are held against it.
    #[must_use]
    pub fn with_output_schema(self, schema: Schema) -> Self {
        self.with(|parts| parts.output_schema = Some(schema))
    }

    /// Sets how the host runs the tool.
    #[must_use]
    pub fn with_policy(self, policy: Policy) -> Self {
        self.with(|parts| parts.policy = policy)
    }

    /// Adds a type of state that the tool asks for.
    #[must_use]
    pub fn with_state(self, state: StateType) -> Self {
        self.with(|parts| parts.state.push(state))
    }

    /// Sets the hints from outside.
    #[must_use]
    pub fn with_annotations(self, annotations: Annotations) -> Self {
        self.with(|parts| parts.annotations = annotations)
    }

    /// Sets the free data from outside.
    #[must_use]
    pub fn with_metadata(self, metadata: Map<String, Value>) -> Self {
        self.with(|parts| parts.metadata = metadata)
    }

    /// Says that the tool should no longer be used.
    #[must_use]
    pub fn with_deprecation(self, deprecation: Deprecation) -> Self {
        self.with(|parts| parts.deprecated = Some(deprecation))
    }

    fn with(mut self, change: impl FnOnce(&mut Parts)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }
}

impl fmt::Display for ToolDefinition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = if self.description().is_empty() { "" } else { " " };
        write!(f, "{}:{separator}", self.name())?;
        for (i, word) in self.description().split_whitespace().enumerate() {
            write!(f, "{}{word}", if i == 0 { "" } else { " " })?;
        }
        write!(f, " Arguments: {}", self.input_schema().as_value())
    }
}

impl fmt::Debug for ToolDefinition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolDefinition")
            .field("name", self.name())
            .field("description", &self.description())
            .field("input_schema", self.input_schema())
            .field("policy", self.policy())
            .finish_non_exhaustive()
    }
}
