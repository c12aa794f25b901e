//! The [`Tool`] trait, tool definitions, policies, and the context of a tool call.

mod arguments;
mod attempt;
mod call_scope;
mod context;
mod definition;
mod dynamic;
mod failure_hook;
mod into_output;
mod name;
mod policy;
mod redefined_tool;
mod state;
mod tools;
mod touch;

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use crate::call::{ToolError, ToolResponse};

pub use arguments::parse_arguments;
pub use attempt::{Attempt, FailedAttempts};
pub(crate) use call_scope::ScopeGuard;
pub use context::{Principal, Progress, ProgressSink, RunContext, ToolContext};
pub use definition::{Annotations, Deprecation, ToolDefinition};
pub use dynamic::{DynamicTool, tool_fn};
pub use failure_hook::{FailedCall, FailureHook};
pub use into_output::{IntoToolOutput, Json};
pub use name::{InvalidToolName, ToolName};
pub use policy::{OnCancel, ToolPolicy};
pub use redefined_tool::RedefinedTool;
pub use state::{HostState, StateIdentity, StateType};
pub use tools::IntoTools;
#[doc(hidden)]
pub use tools::ToolMethods;
pub use touch::{Touch, TouchFn};

/// A function that a model can call, together with its definition.
///
/// A tool can be a Rust function, a tool of an MCP server, or an agent. Most tools are created with
/// [`#[tool]`](macro@crate::tool) or [`tool_fn`]. If the definition is known only at run time, for
/// example because a server sends it, use [`DynamicTool`] or implement this trait.
///
/// # Examples
///
/// ```
/// use haft_core::{
///     Schema, Tool, ToolContext, ToolDefinition, ToolError, ToolName, call::ToolResponse,
///     export::async_trait,
/// };
/// use serde_json::Value;
///
/// struct Ping(ToolDefinition);
///
/// #[async_trait]
/// impl Tool for Ping {
///     fn definition(&self) -> &ToolDefinition {
///         &self.0
///     }
///
///     async fn call(&self, _: Value, _cx: &ToolContext) -> Result<ToolResponse, ToolError> {
///         Ok("pong".into())
///     }
/// }
///
/// let ping = Ping(ToolDefinition::new(ToolName::new("ping")?, Schema::object()));
/// assert_eq!(ping.definition().name().as_str(), "ping");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tool",
    label = "not a tool",
    note = "`#[tool]` generates a type for the function: use `GetWeather` instead of `get_weather`",
    note = "add a value with `#[tools]` on its `impl` block by `Toolset::with_tools`, a source by `with_source`"
)]
#[async_trait]
pub trait Tool: Send + Sync {
    /// Returns the definition of the tool. An implementation must always return the same
    /// definition.
    fn definition(&self) -> &ToolDefinition;

    /// Executes the tool. The pipeline has already validated `arguments` against the input schema.
    ///
    /// Do not call this method directly: use [`ToolExt::invoke`](crate::ToolExt::invoke) or
    /// [`Toolset::call`](crate::toolset::Toolset::call). Both run the pipeline, which validates the
    /// arguments, enforces the timeout and catches panics.
    ///
    /// # Errors
    ///
    /// Fails if the call cannot be completed. The variant of the [`ToolError`] determines how the
    /// agent loop continues.
    ///
    /// # Cancellation
    ///
    /// Dropping the future cancels the call. Side effects may already have happened.
    async fn call(&self, arguments: Value, cx: &ToolContext) -> Result<ToolResponse, ToolError>;
}

#[async_trait]
impl<T: Tool + ?Sized> Tool for Arc<T> {
    fn definition(&self) -> &ToolDefinition {
        T::definition(self)
    }

    async fn call(&self, arguments: Value, cx: &ToolContext) -> Result<ToolResponse, ToolError> {
        T::call(self, arguments, cx).await
    }
}

#[async_trait]
impl<T: Tool + ?Sized> Tool for &T {
    fn definition(&self) -> &ToolDefinition {
        T::definition(self)
    }

    async fn call(&self, arguments: Value, cx: &ToolContext) -> Result<ToolResponse, ToolError> {
        T::call(self, arguments, cx).await
    }
}
