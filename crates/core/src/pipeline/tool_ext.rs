use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;
use serde_json::Value;

use super::{CallOutcome, Pipeline, block_on};
use crate::{
    call::{ToolError, ToolResult},
    tool::{RedefinedTool, Tool, ToolContext, ToolDefinition, ToolPolicy},
};

/// An extension trait for every [`Tool`], with methods that call the tool directly or replace its
/// definition.
#[async_trait]
pub trait ToolExt: Tool {
    /// Calls the tool through the [unbounded](Pipeline::unbounded) pipeline, in the default
    /// context.
    ///
    /// `arguments` is any serializable value. The result is not truncated. If the call is
    /// suspended, the result is a failure.
    ///
    /// # Cancellation
    ///
    /// Dropping the future cancels the call. Side effects may already have happened.
    async fn invoke<A: Serialize + Send>(&self, arguments: A) -> ToolResult {
        self.invoke_with(arguments, &ToolContext::default()).await.into_result()
    }

    /// Calls the tool like [`invoke`](Self::invoke), but in the context `cx`. The outcome is
    /// pending if the call is suspended.
    async fn invoke_with<A: Serialize + Send>(&self, arguments: A, cx: &ToolContext) -> CallOutcome {
        let tool: &dyn Tool = &self;
        match serde_json::to_value(arguments) {
            Ok(arguments) => Pipeline::unbounded().call_tool(tool, arguments, cx).await,
            Err(error) => {
                let name = tool.definition().name().as_str();
                CallOutcome::Finished(ToolResult::failed(cx.call_id(), name, &ToolError::failed(error)))
            }
        }
    }

    /// Calls the tool from synchronous code and blocks the thread until the call ends.
    ///
    /// Inside a task of a tokio runtime, blocking could deadlock, so the call fails. Use
    /// [`invoke`](Self::invoke) there. Inside `spawn_blocking`, this method works.
    fn invoke_blocking<A: Serialize + Send>(&self, arguments: A) -> ToolResult {
        block_on("invoke", self.invoke(arguments))
            .unwrap_or_else(|error| ToolResult::failed("", self.definition().name().as_str(), &error))
    }

    /// Wraps the tool in a new tool with a changed definition. `change` receives the current
    /// definition and returns the new definition, for example with another name, description,
    /// schema or policy.
    ///
    /// An invalid change, for example a description for an argument that does not exist, is a
    /// [defect](ToolDefinition::defect) of the tool.
    /// [`Toolset::check`](crate::toolset::Toolset::check) reports the defect.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::{Tool, tool, ToolExt, Toolset};
    /// use serde_json::json;
    ///
    /// #[tool]
    /// fn add(x: i64, y: i64) -> i64 {
    ///     x + y
    /// }
    ///
    /// let sum = Add.with_definition(|it| {
    ///     it.with_name("sum")
    ///         .with_description("Adds two amounts, in cents.")
    ///         .with_argument_description("x", "The first amount.")
    /// });
    /// let (_, x) = sum.argument_schemas()[0];
    /// assert_eq!(x, &json!({"type": "integer", "description": "The first amount."}));
    /// assert_eq!(sum.invoke_blocking(json!({"x": 17, "y": 25})).model_text(), "42");
    ///
    /// let wrong = Add.with_definition(|it| it.with_argument_description("z", "An amount."));
    /// let error = Toolset::new().with_tool(wrong).check().unwrap_err().to_string();
    /// assert!(error.ends_with(r#"there is no "z" to describe; known: "x", "y""#));
    /// ```
    fn with_definition(self, change: impl FnOnce(ToolDefinition) -> ToolDefinition) -> RedefinedTool<Self>
    where
        Self: Sized,
    {
        let definition = change(self.definition().clone());
        RedefinedTool::new(self, definition)
    }

    /// Wraps the tool in a new tool with a changed policy. `change` receives the current policy.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use haft_core::{Tool, ToolExt, tool};
    ///
    /// #[tool]
    /// fn delete(path: String) {}
    ///
    /// let delete = Delete.map_policy(|policy| policy.with_approval().with_max_calls(3));
    /// let delete = delete.with_timeout(Duration::from_secs(5)).with_retries(2);
    /// assert!(delete.definition().policy().requires_approval);
    /// ```
    fn map_policy(self, change: impl FnOnce(ToolPolicy) -> ToolPolicy) -> RedefinedTool<Self>
    where
        Self: Sized,
    {
        self.with_definition(|definition| definition.map_policy(change))
    }

    /// Wraps the tool in a new tool with this [timeout](ToolPolicy::timeout) of a call.
    fn with_timeout(self, timeout: Duration) -> RedefinedTool<Self>
    where
        Self: Sized,
    {
        self.map_policy(|policy| policy.with_timeout(timeout))
    }

    /// Wraps the tool in a new tool with this maximum number of consecutive
    /// [retries](ToolPolicy::retries).
    fn with_retries(self, retries: u32) -> RedefinedTool<Self>
    where
        Self: Sized,
    {
        self.map_policy(|policy| policy.with_retries(retries))
    }

    /// Wraps the tool in a new tool. Each call requires an
    /// [approval](ToolPolicy::requires_approval).
    fn with_approval(self) -> RedefinedTool<Self>
    where
        Self: Sized,
    {
        self.map_policy(ToolPolicy::with_approval)
    }

    /// Returns the name and the schema of each argument, in the order of the input schema.
    fn argument_schemas(&self) -> Vec<(&str, &Value)> {
        self.definition()
            .input_schema()
            .properties()
            .map(|property| (property.name, property.schema))
            .collect()
    }
}

impl<T: Tool + ?Sized> ToolExt for T {}
