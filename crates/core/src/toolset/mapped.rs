use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use super::Adaptor;
use crate::{
    call::{ToolError, ToolOutput, ToolResponse},
    tool::{Tool, ToolContext, ToolDefinition},
};

/// The adaptor of [`Toolset::mapped`](crate::toolset::Toolset::mapped). The contained function
/// transforms the output of each tool.
pub(super) struct Mapped<F>(pub(super) Arc<F>);

impl<F> Adaptor for Mapped<F>
where
    F: Fn(&ToolDefinition, ToolOutput) -> Result<ToolOutput, ToolError> + Send + Sync + 'static,
{
    fn adapt(&self, tool: &Arc<dyn Tool>) -> Option<Arc<dyn Tool>> {
        Some(Arc::new(MappedTool { tool: Arc::clone(tool), map: Arc::clone(&self.0) }))
    }
}

/// A tool whose output is transformed by the function `map`.
struct MappedTool<F> {
    tool: Arc<dyn Tool>,
    map: Arc<F>,
}

#[async_trait]
impl<F> Tool for MappedTool<F>
where
    F: Fn(&ToolDefinition, ToolOutput) -> Result<ToolOutput, ToolError> + Send + Sync,
{
    fn definition(&self) -> &ToolDefinition {
        self.tool.definition()
    }

    async fn call(&self, arguments: Value, cx: &ToolContext) -> Result<ToolResponse, ToolError> {
        match self.tool.call(arguments, cx).await? {
            ToolResponse::Done(output) => (self.map)(self.definition(), output).map(ToolResponse::Done),
            pending => Ok(pending),
        }
    }
}
