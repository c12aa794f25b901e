use std::sync::Arc;

use super::Adaptor;
use crate::tool::{Tool, ToolDefinition};

/// The adaptor of [`Toolset::filtered`](crate::toolset::Toolset::filtered). The contained function
/// returns `true` for the tools that stay visible.
pub(super) struct Filtered<F>(pub(super) F);

impl<F: Fn(&ToolDefinition) -> bool + Send + Sync> Adaptor for Filtered<F> {
    fn adapt(&self, tool: &Arc<dyn Tool>) -> Option<Arc<dyn Tool>> {
        (self.0)(tool.definition()).then(|| Arc::clone(tool))
    }
}
