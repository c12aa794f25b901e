use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use super::Adaptor;
use crate::{
    call::{Pending, PendingKind, ToolError, ToolResponse},
    tool::{Tool, ToolContext, ToolDefinition},
};

/// The adaptor of [`Toolset::external`](crate::toolset::Toolset::external). The contained function
/// returns `true` for the tools that the host program executes.
pub(super) struct External<F>(pub(super) F);

impl<F: Fn(&ToolDefinition) -> bool + Send + Sync> Adaptor for External<F> {
    fn adapt(&self, tool: &Arc<dyn Tool>) -> Option<Arc<dyn Tool>> {
        let is_external = (self.0)(tool.definition());
        Some(if is_external { Arc::new(ExternalTool(Arc::clone(tool))) } else { Arc::clone(tool) })
    }
}

/// A tool that the host program executes. Each call is suspended until the host program provides
/// the output.
struct ExternalTool(Arc<dyn Tool>);

#[async_trait]
impl Tool for ExternalTool {
    fn definition(&self) -> &ToolDefinition {
        self.0.definition()
    }

    async fn call(&self, _arguments: Value, _cx: &ToolContext) -> Result<ToolResponse, ToolError> {
        Ok(ToolResponse::Pending(Pending::new(PendingKind::External)))
    }
}
