//! The tool: a value that carries its definition and can be called.

mod access;
mod arguments;
mod context;
mod definition;
mod dynamic;
mod into_output;
mod name;
mod policy;
mod redefined;
mod scope;
mod state;
mod tools;

use std::{future::Future, pin::Pin, sync::Arc};

use async_trait::async_trait;
use serde_json::Value;

use crate::call::{ToolError, ToolOutcome};

pub use access::{Access, Touch};
pub use arguments::from_arguments;
pub(crate) use arguments::read;
pub use context::{Principal, Progress, ProgressSink, RunContext, ToolContext};
pub use definition::{Annotations, Deprecation, ToolDefinition};
pub use dynamic::{DynamicTool, tool_fn};
pub use into_output::{IntoToolOutput, Json};
pub use name::{InvalidToolName, ToolName};
pub use policy::Policy;
pub use redefined::Redefined;
pub(crate) use scope::ScopeGuard;
pub use state::{State, StateIdentity, StateType};
#[doc(hidden)]
pub use tools::Methods;
pub use tools::Tools;

/// Something that a model can call: a Rust function, a server's tool, another agent.
///
/// A tool found at run time and one written at compile time are the same thing. Most tools come from
/// [`#[tool]`](macro@crate::tool) or [`tool_fn`]; implement the trait where neither fits.
///
/// # Examples
///
/// ```
/// use haft_core::{call::ToolOutcome, export::async_trait, Schema, Tool, ToolContext, ToolDefinition, ToolError, ToolName};
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
///     async fn call(&self, _arguments: Value, _cx: &ToolContext) -> Result<ToolOutcome, ToolError> {
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
    note = "of a function with `#[tool]` the tool is the type beside it: `GetWeather` for `get_weather`",
    note = "a value with `#[tools]` on its `impl` block goes to `Toolset::with_tools`, a source to `with_source`"
)]
#[async_trait]
pub trait Tool: Send + Sync {
    /// What the tool is called, does and takes. The same at every call.
    fn definition(&self) -> &ToolDefinition;

    /// Does the work. `arguments` have been validated against the definition's input schema.
    ///
    /// This is for implementors: to call a tool use [`ToolExt::invoke`](crate::ToolExt::invoke) or [`Toolset::call`](crate::toolset::Toolset::call),
    /// which validate, catch, bound and record.
    ///
    /// # Errors
    ///
    /// Fails with the [`ToolError`] that says what the loop must do.
    ///
    /// # Cancellation
    ///
    /// Dropping the future cancels the call. An effect that was under way may have happened.
    async fn call(&self, arguments: Value, cx: &ToolContext) -> Result<ToolOutcome, ToolError>;
}

/// What a caller of a tool waits for.
type Calling<'a> = Pin<Box<dyn Future<Output = Result<ToolOutcome, ToolError>> + Send + 'a>>;

// What leads to a tool hands its future on. The method is written out: an `async fn` would put it in another box.

impl<T: Tool + ?Sized> Tool for Arc<T> {
    fn definition(&self) -> &ToolDefinition {
        T::definition(self)
    }

    fn call<'t, 'c, 'f>(&'t self, arguments: Value, cx: &'c ToolContext) -> Calling<'f>
    where
        't: 'f,
        'c: 'f,
        Self: 'f,
    {
        T::call(self, arguments, cx)
    }
}

impl<T: Tool + ?Sized> Tool for &T {
    fn definition(&self) -> &ToolDefinition {
        T::definition(self)
    }

    fn call<'t, 'c, 'f>(&'t self, arguments: Value, cx: &'c ToolContext) -> Calling<'f>
    where
        't: 'f,
        'c: 'f,
        Self: 'f,
    {
        T::call(self, arguments, cx)
    }
}
