use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use super::Adaptor;
use crate::{
    call::{ToolError, ToolOutcome, ToolOutput},
    tool::{Tool, ToolContext, ToolDefinition},
};

/// Changes results, for [`ToolSourceExt::mapped`](crate::toolset::ToolSourceExt::mapped).
pub(super) struct Mapped<F>(pub(super) Arc<F>);

impl<F> Adaptor for Mapped<F>
where
    F: Fn(&ToolDefinition, ToolOutput) -> Result<ToolOutput, ToolError> + Send + Sync + 'static,
{
    fn adapt(&self, tool: &Arc<dyn Tool>) -> Option<Arc<dyn Tool>> {
        Some(Arc::new(Changed { tool: Arc::clone(tool), map: Arc::clone(&self.0) }))
    }
}

/// A tool whose result is changed.
struct Changed<F> {
    tool: Arc<dyn Tool>,
    map: Arc<F>,
}

#[async_trait]
impl<F> Tool for Changed<F>
where
    F: Fn(&ToolDefinition, ToolOutput) -> Result<ToolOutput, ToolError> + Send + Sync,
{
    fn definition(&self) -> &ToolDefinition {
        self.tool.definition()
    }

    async fn call(&self, arguments: Value, cx: &ToolContext) -> Result<ToolOutcome, ToolError> {
        match self.tool.call(arguments, cx).await? {
            ToolOutcome::Done(output) => (self.map)(self.definition(), output).map(ToolOutcome::Done),
            pending => Ok(pending),
        }
    }
}
