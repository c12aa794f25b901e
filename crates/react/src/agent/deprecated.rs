//! Tools that should no longer be used.

use std::collections::HashSet;

use haft_core::{ToolName, toolset::ToolList};

/// The tools of a run that should no longer be used. Each is told once.
#[derive(Default)]
pub(super) struct Deprecated {
    told: HashSet<ToolName>,
    /// The list that was looked at last.
    list: Option<u64>,
}

impl Deprecated {
    pub(super) fn warn(&mut self, tools: &ToolList) {
        if self.list.replace(tools.id()) == Some(tools.id()) {
            return;
        }
        for definition in tools.tools().iter().map(|tool| tool.definition()) {
            if let Some(deprecation) = definition.deprecated()
                && self.told.insert(definition.name().clone())
            {
                tracing::warn!("tool {:?} is {deprecation}", definition.name());
            }
        }
    }
}
