use std::sync::Arc;

use super::Adaptor;
use crate::tool::{RedefinedTool, Tool, ToolDefinition, ToolPolicy};

/// The adaptor of [`Toolset::approval_required`](crate::toolset::Toolset::approval_required). The
/// contained function returns `true` for the tools that need an approval.
pub(super) struct ApprovalRequired<F>(pub(super) F);

impl<F: Fn(&ToolDefinition) -> bool + Send + Sync> Adaptor for ApprovalRequired<F> {
    fn adapt(&self, tool: &Arc<dyn Tool>) -> Option<Arc<dyn Tool>> {
        let definition = tool.definition();
        if !(self.0)(definition) {
            return Some(Arc::clone(tool));
        }
        let policy = ToolPolicy { requires_approval: true, ..definition.policy().clone() };
        Some(Arc::new(RedefinedTool::new(Arc::clone(tool), definition.clone().with_policy(policy))))
    }
}
