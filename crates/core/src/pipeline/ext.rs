use async_trait::async_trait;
use serde::Serialize;
use serde_json::Value;

use super::{CallOutcome, Pipeline, block_on};
use crate::{
    call::{ToolError, ToolResult},
    tool::{Redefined, Tool, ToolContext, ToolDefinition},
};

/// What can be done with any tool.
#[async_trait]
pub trait ToolExt: Tool {
    /// Calls the tool in a default context, through the pipeline: validated, repaired, caught.
    ///
    /// `arguments` is anything that serialises. The result is whole, however long it is.
    async fn invoke<A: Serialize + Send>(&self, arguments: A) -> ToolResult {
        self.invoke_with(arguments, &ToolContext::default()).await.into_result()
    }

    /// Calls the tool in a given context; the outcome may be that it waits.
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

    /// Calls the tool from synchronous code.
    ///
    /// In a task of an async runtime this is a failure that names [`invoke`](Self::invoke): blocking there could not
    /// end. Where code may block, as in `spawn_blocking`, it works.
    fn invoke_blocking<A: Serialize + Send>(&self, arguments: A) -> ToolResult {
        block_on("invoke", self.invoke(arguments))
            .unwrap_or_else(|error| ToolResult::failed("", self.definition().name().as_str(), &error))
    }

    /// Changes the definition: its name, its description, its schema, what it says about an argument, its policy. Each by
    /// itself; what is not changed stays as it is inferred, or as a server sent it.
    ///
    /// What cannot be, such as a description of an argument that there is not, is a [defect](ToolDefinition::defect), which
    /// a toolset reports when it is checked.
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
    /// assert_eq!(sum.args()[0].1, &json!({"type": "integer", "description": "The first amount."}));
    /// assert_eq!(sum.invoke_blocking(json!({"x": 17, "y": 25})).model_text(), "42");
    ///
    /// let wrong = Add.with_definition(|it| it.with_argument_description("z", "The third amount."));
    /// assert_eq!(
    ///     Toolset::new().with(wrong).check().unwrap_err().to_string(),
    ///     r#"tool "add" cannot be used: its arguments: there is no "z" to describe; known: "x", "y""#
    /// );
    /// ```
    fn with_definition(self, change: impl FnOnce(ToolDefinition) -> ToolDefinition) -> Redefined<Self>
    where
        Self: Sized,
    {
        let definition = change(self.definition().clone());
        Redefined::new(self, definition)
    }

    /// The schemas of the arguments by name, in order.
    fn args(&self) -> Vec<(&str, &Value)> {
        self.definition()
            .input_schema()
            .properties()
            .map(|property| (property.name, property.schema))
            .collect()
    }
}

impl<T: Tool + ?Sized> ToolExt for T {}
