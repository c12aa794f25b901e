//! Logging of deprecated and withheld tools.

use std::collections::HashSet;

use haft_core::{ToolName, toolset::ToolList};

/// A logger of deprecated and withheld tools. It logs one warning per tool and run.
#[derive(Debug, Default)]
pub(super) struct ToolWarnings {
    deprecated: HashSet<ToolName>,
    /// The id of the last checked tool list, so that an unchanged list is not checked again. `None`
    /// before the first check.
    last_list: Option<u64>,
}

impl ToolWarnings {
    /// Logs the diagnostics of the first list, and a warning for each deprecated tool in `tools`
    /// that has not been logged yet.
    pub(super) fn warn_once(&mut self, tools: &ToolList) {
        let last = self.last_list.replace(tools.snapshot_id());
        if last == Some(tools.snapshot_id()) {
            return;
        }
        if last.is_none() {
            tools.diagnostics().iter().for_each(|diagnostic| tracing::warn!("{diagnostic}"));
        }
        for definition in tools.tools().iter().map(|tool| tool.definition()) {
            if let Some(deprecation) = definition.deprecation()
                && self.deprecated.insert(definition.name().clone())
            {
                tracing::warn!("tool {:?} is {deprecation}", definition.name());
            }
        }
    }
}
