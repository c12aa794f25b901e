use std::{fmt, future::Future, sync::Arc};

use async_trait::async_trait;
use futures::future::BoxFuture;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{IntoToolOutput, Tool, ToolContext, ToolDefinition, parse_arguments};
use crate::call::{ToolError, ToolResponse};

type Handler =
    dyn Fn(Value, ToolContext) -> BoxFuture<'static, Result<ToolResponse, ToolError>> + Send + Sync;

/// A tool built from a definition and a function. Use it if the definition is known only at run
/// time.
///
/// # Examples
///
/// ```
/// use haft_core::{Schema, tool::DynamicTool, ToolDefinition, ToolName};
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
    /// Creates a tool with the given `definition`. Each call runs `function`, which receives the
    /// arguments and the context of the call.
    pub fn new<F, Fut>(definition: ToolDefinition, function: F) -> Self
    where
        F: Fn(Value, ToolContext) -> Fut + Send + Sync + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: IntoToolOutput,
    {
        let handler = move |arguments, cx| -> BoxFuture<'static, _> {
            let call = function(arguments, cx);
            Box::pin(async move { call.await.into_tool_output() })
        };
        Self { definition, handler: Arc::new(handler) }
    }
}

#[async_trait]
impl Tool for DynamicTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    async fn call(&self, arguments: Value, cx: &ToolContext) -> Result<ToolResponse, ToolError> {
        (self.handler)(arguments, cx.clone()).await
    }
}

/// Creates a tool from the closure `function`.
///
/// The closure has one parameter of type `A`, usually a struct. The fields of the struct are the
/// arguments of the tool. For a tool without arguments, use an empty struct or a [`Value`]. The
/// input schema is generated from `A`, and the output schema from the return type.
///
/// An invalid [`ToolName`](crate::tool::ToolName) or an unsupported schema is a
/// [defect](ToolDefinition::defect) of the tool. [`Toolset::check`](crate::toolset::Toolset::check)
/// reports it.
///
/// # Examples
///
/// ```
/// use haft_core::{export::schemars::{self, JsonSchema}, tool_fn, ToolExt};
/// use serde_json::json;
///
/// #[derive(serde::Deserialize, JsonSchema)]
/// struct Double {
///     n: i64,
/// }
///
/// let double = tool_fn("double", "Doubles a number.", |Double { n }| async move { n * 2 });
/// assert_eq!(double.invoke_blocking(json!({"n": 21})).into_output()?.text(), "42");
/// # Ok::<(), haft_core::call::Failure>(())
/// ```
pub fn tool_fn<A, F, Fut>(name: &str, description: &str, function: F) -> DynamicTool
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    F: Fn(A) -> Fut + Send + Sync + 'static,
    Fut: Future + Send + 'static,
    Fut::Output: IntoToolOutput,
{
    let definition = ToolDefinition::from_types::<A, Fut::Output>(name).with_description(description);
    let function = Arc::new(function);
    DynamicTool::new(definition, move |arguments, _cx| {
        let function = Arc::clone(&function);
        async move { function(parse_arguments(arguments)?).await.into_tool_output() }
    })
}

impl fmt::Debug for DynamicTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DynamicTool").field(self.definition.name()).finish()
    }
}
