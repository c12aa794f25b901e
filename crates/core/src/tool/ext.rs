use async_trait::async_trait;
use serde::Serialize;
use serde_json::Value;

use super::{Tool, ToolContext, ToolError};
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
    /// Inside an async runtime this is a failure that names [`invoke`](Self::invoke): blocking there could not
    /// end.
    fn invoke_blocking<A: Serialize + Send>(&self, arguments: A) -> ToolResult {
        blocking::block_on("invoke", self.invoke(arguments))
            .unwrap_or_else(|error| ToolResult::failed("", self.definition().name().as_str(), &error))
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
