use std::sync::Arc;

use async_trait::async_trait;
use serde::Serialize;
use serde_json::Value;
use tower_layer::Layer;

use super::{CallService, LayeredTool, Redefined, Tool, ToolContext, ToolDefinition, ToolError, ToolService};
use crate::{CallOutcome, Pipeline, ToolResult, blocking};

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
        blocking::block_on("invoke", self.invoke(arguments))
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
    /// use haft_core::{Tool, ToolExt, Toolset, json, tool};
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

    /// Puts a layer of `tower` around the tool: a limit, a timeout, a retry, or one of your own. It is any layer over a service of
    /// [`CallRequest`](crate::CallRequest) that makes one that can be cloned; each call is made by a clone.
    ///
    /// The layers are inside the pipeline: a call has been validated and permitted before it comes to them, its deadline
    /// holds for them as well, what they answer is checked, and their panics are caught. A call that waits passes them once more when it goes
    /// on. What a layer reports is told to the model by its text, and a [`ToolError`] keeps its meaning; where it gave up a call that had
    /// begun, of a tool that is not idempotent, that is [`Unconfirmed`](ToolError::Unconfirmed). The timeout of tower
    /// does not say how long it waited: that is measured, so that the model reads `timed out after 50 ms`, give or take
    /// one.
    ///
    /// A service that cannot be cloned, such as a rate limit, goes under a `Buffer`, which needs a runtime where it is made and works as long as
    /// that does: make it in the runtime of the program, not in a call that blocks. Called from synchronous code, a tool with a `Buffer` is for
    /// [`Runtime::block_on`](tokio::runtime::Runtime::block_on) of that runtime, since `invoke_blocking` and `call_blocking` may each have one of
    /// their own. A layer that makes calls again is for [idempotent](crate::Policy::idempotent) tools.
    ///
    /// The layers see the definition that the tool has here. What is changed afterwards, as its policy by `with_definition`, counts for the
    /// pipeline and not for them.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use haft_core::{ToolExt, Toolset, json, tool};
    /// use tower::ServiceBuilder;
    ///
    /// /// Looks up the weather.
    /// #[tool]
    /// async fn weather(city: String) -> String {
    ///     std::future::pending().await
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let limits = ServiceBuilder::new()
    ///     .buffer(8)
    ///     .rate_limit(5, Duration::from_secs(1))
    ///     .concurrency_limit(2)
    ///     .timeout(Duration::from_millis(50));
    /// let tools = Toolset::new().with(Weather.layer(limits));
    /// assert_eq!(tools.call("weather", json!({"city": "Oslo"})).await.model_text(), "timed out after 50 ms");
    /// # }
    /// ```
    fn layer<L>(self, layer: L) -> LayeredTool<L::Service>
    where
        Self: Sized + 'static,
        L: Layer<ToolService, Service: CallService>,
    {
        let definition = self.definition().clone();
        LayeredTool::new(definition, layer.layer(ToolService::new(Arc::new(self))))
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
