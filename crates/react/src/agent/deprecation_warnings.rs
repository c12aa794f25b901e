//! Logging of deprecated tools.

use std::collections::HashSet;

use haft_core::{ToolName, toolset::ToolList};

/// A logger of deprecated tools. It logs one warning per tool and run.
#[derive(Default)]
pub(super) struct DeprecationWarnings {
    logged: HashSet<ToolName>,
    /// The id of the last checked tool list, so that an unchanged list is not checked again. `None`
    /// before the first check.
    last_list_id: Option<u64>,
}

impl DeprecationWarnings {
    /// Logs a warning for each deprecated tool in `tools` that has not been logged yet.
    pub(super) fn warn_once(&mut self, tools: &ToolList) {
        if self.last_list_id.replace(tools.snapshot_id()) == Some(tools.snapshot_id()) {
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
