use std::{future::Future, pin::Pin, sync::Arc};

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{IntoToolOutput, Tool, ToolContext, ToolDefinition, ToolError, ToolOutcome};

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type Handler = dyn Fn(Value, ToolContext) -> BoxFuture<Result<ToolOutcome, ToolError>> + Send + Sync;

/// A tool that is put together at run time: a definition and a function of the arguments.
///
/// # Examples
///
/// ```
/// use haft_core::{DynamicTool, Schema, ToolDefinition, ToolName};
///
/// let definition = ToolDefinition::new(ToolName::new("ping")?, Schema::object());
/// let ping = DynamicTool::new(definition, |_arguments, _cx| async { "pong" });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct DynamicTool {
    definition: ToolDefinition,
    handler: Arc<Handler>,
}

impl DynamicTool {
    /// Makes a tool of a definition and a function.
    pub fn new<F, Fut>(definition: ToolDefinition, function: F) -> Self
    where
        F: Fn(Value, ToolContext) -> Fut + Send + Sync + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: IntoToolOutput,
    {
        let handler = move |arguments, cx| -> BoxFuture<_> {
            let call = function(arguments, cx);
            Box::pin(async move { call.await.into_tool_output() })
        };
        Self { definition, handler: Arc::new(handler) }
    }

    /// Changes the definition, such as its description or its policy.
    #[must_use]
    pub fn with_definition(mut self, change: impl FnOnce(ToolDefinition) -> ToolDefinition) -> Self {
        self.definition = change(self.definition);
        self
    }
}

#[async_trait]
impl Tool for DynamicTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    async fn call(&self, arguments: Value, cx: &ToolContext) -> Result<ToolOutcome, ToolError> {
        (self.handler)(arguments, cx.clone()).await
    }
}

/// Makes a tool of a closure with one typed argument, whose fields are the tool's arguments.
///
/// The input schema comes from `A`, the output schema from what the closure returns. A closure may hold state
/// of its own. A name that is no [`ToolName`](crate::ToolName), or a type whose schema the engine
/// refuses, makes a tool with a [defect](ToolDefinition::defect), which a toolset reports when it is checked.
///
/// # Examples
///
/// ```
/// use haft_core::{ToolExt, schemars::{self, JsonSchema}, tool_fn};
/// use serde_json::json;
///
/// #[derive(serde::Deserialize, JsonSchema)]
/// struct Double {
///     n: i64,
/// }
///
/// let double = tool_fn("double", "Doubles a number.", |Double { n }| async move { n * 2 });
/// assert_eq!(double.invoke_blocking(json!({"n": 21})).into_output()?.text(), "42");
/// # Ok::<(), haft_core::Failure>(())
/// ```
pub fn tool_fn<A, F, Fut>(name: &str, description: &str, function: F) -> DynamicTool
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    F: Fn(A) -> Fut + Send + Sync + 'static,
    Fut: Future + Send + 'static,
    Fut::Output: IntoToolOutput,
{
    let definition = ToolDefinition::of::<A, Fut::Output>(name).with_description(description);
    let function = Arc::new(function);
    DynamicTool::new(definition, move |arguments, _cx| {
        let function = Arc::clone(&function);
        async move { function(from_arguments(arguments)?).await.into_tool_output() }
    })
}

/// Reads typed arguments out of validated ones.
///
/// By the rules of JSON Schema `3.0` is an integer, by those of serde it is not: here it is.
///
/// # Errors
///
/// Fails with [`ToolError::InvalidArguments`] where the type is stricter than its schema.
pub fn from_arguments<A: DeserializeOwned>(arguments: Value) -> Result<A, ToolError> {
    read_value(arguments).map_err(|error| ToolError::InvalidArguments(error.to_string().into()))
}

/// Reads a typed value, in which a float without a fraction is an integer.
pub(crate) fn read_value<A: DeserializeOwned>(mut value: Value) -> Result<A, serde_json::Error> {
    A::deserialize(&value).or_else(|error| {
        // A value that can be read stays as it is, untyped parts and all.
        if integers_from_floats(&mut value) { A::deserialize(value) } else { Err(error) }
    })
}

/// Writes floats without a fraction as integers, as far as `i64` goes; says whether there were any.
fn integers_from_floats(value: &mut Value) -> bool {
    match value {
        Value::Number(number) if number.is_f64() => match number.as_f64().and_then(exact_integer) {
            Some(integer) => {
                *value = integer.into();
                true
            }
            None => false,
        },
        Value::Array(items) => items.iter_mut().fold(false, |any, item| integers_from_floats(item) | any),
        Value::Object(entries) => {
            entries.values_mut().fold(false, |any, item| integers_from_floats(item) | any)
        }
        _ => false,
    }
}

fn exact_integer(float: f64) -> Option<i64> {
    /// Beyond 2^53 a float no longer says which integer is meant.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    (float.fract() == 0.0 && float.abs() <= EXACT).then_some(float as i64)
}
