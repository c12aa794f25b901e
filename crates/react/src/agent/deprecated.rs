//! Warnings about deprecated tools.

use std::collections::HashSet;

use haft_core::{ToolName, toolset::ToolList};

/// Warns about each deprecated tool once a run.
#[derive(Default)]
pub(super) struct Deprecated {
    warned: HashSet<ToolName>,
    /// The last list.
    list: Option<u64>,
}

impl Deprecated {
    pub(super) fn warn(&mut self, tools: &ToolList) {
        if self.list.replace(tools.id()) == Some(tools.id()) {
            return;
        }
        for definition in tools.tools().iter().map(|tool| tool.definition()) {
            if let Some(deprecation) = definition.deprecated()
                && self.warned.insert(definition.name().clone())
            {
                tracing::warn!("tool {:?} is {deprecation}", definition.name());
            }
        }
    }
}
