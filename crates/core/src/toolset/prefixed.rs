use std::sync::Arc;

use super::Adaptor;
use crate::tool::{RedefinedTool, Tool, ToolName};

/// The adaptor of [`Toolset::prefixed`](crate::toolset::Toolset::prefixed). The string is the
/// prefix.
pub(super) struct Prefixed(pub(super) String);

impl Adaptor for Prefixed {
    fn adapt(&self, tool: &Arc<dyn Tool>) -> Option<Arc<dyn Tool>> {
        let definition = tool.definition();
        let name = ToolName::sanitize(&format!("{}{}", self.0, definition.name()));
        Some(Arc::new(RedefinedTool::new(Arc::clone(tool), definition.clone().with_name(name))))
    }
}
