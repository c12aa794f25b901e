use async_trait::async_trait;
use serde_json::Value;

use super::{Tool, ToolContext, ToolDefinition};
use crate::call::{ToolError, ToolResponse};

/// A tool with a replaced definition, created by
/// [`ToolExt::with_definition`](crate::pipeline::ToolExt::with_definition).
#[derive(Clone, Debug)]
pub struct RedefinedTool<T> {
    tool: T,
    definition: ToolDefinition,
}

impl<T: Tool> RedefinedTool<T> {
    /// Wraps `tool` and replaces its definition with `definition`.
    pub(crate) fn new(tool: T, definition: ToolDefinition) -> Self {
        Self { tool, definition }
    }
}

#[async_trait]
impl<T: Tool> Tool for RedefinedTool<T> {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    async fn call(&self, arguments: Value, cx: &ToolContext) -> Result<ToolResponse, ToolError> {
        self.tool.call(arguments, cx).await
    }
}
