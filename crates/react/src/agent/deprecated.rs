//! Logging of deprecated tools.

use std::collections::HashSet;

use haft_core::{ToolName, toolset::ToolList};

/// Logs a warning for each deprecated tool, once per run.
#[derive(Default)]
pub(super) struct DeprecationWarnings {
    logged: HashSet<ToolName>,
    /// The id of the tool list that was checked last. `None` before the first check. The same list
    /// is not checked twice in a row.
    list: Option<u64>,
}

impl DeprecationWarnings {
    /// Logs a warning for each deprecated tool in `tools` that has not been logged yet.
    pub(super) fn warn(&mut self, tools: &ToolList) {
        if self.list.replace(tools.id()) == Some(tools.id()) {
            return;
        }
        for definition in tools.tools().iter().map(|tool| tool.definition()) {
            if let Some(deprecation) = definition.deprecation()
                && self.logged.insert(definition.name().clone())
            {
                tracing::warn!("tool {:?} is {deprecation}", definition.name());
            }
        }
    }
}
