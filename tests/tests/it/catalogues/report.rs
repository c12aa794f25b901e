//! The results of checking the tools in the catalogues.

use std::collections::BTreeSet;

use haft_core::schema::{ProviderSchema, SchemaChangeKind};

/// The results of checking one or more catalogues. A tool is named by its package and its name,
/// separated by a space.
#[derive(Default)]
pub(super) struct Report {
    pub(super) servers: usize,
    pub(super) tools: usize,
    /// The rejected tools, each with the reason.
    pub(super) rejected: BTreeSet<String>,
    /// The tools whose input schemas are incompatible with OpenAI's strict mode, each with the
    /// reason.
    pub(super) not_strict: BTreeSet<String>,
    /// The tools for which no valid arguments were generated, for at least one converted schema.
    pub(super) without_arguments: BTreeSet<String>,
    /// Violations of the tested rules. Each text starts with the name of the tool or of the
    /// package.
    pub(super) broken: BTreeSet<String>,
}

impl Report {
    pub(super) fn add(&mut self, other: Self) {
        self.servers += other.servers;
        self.tools += other.tools;
        self.rejected.extend(other.rejected);
        self.not_strict.extend(other.not_strict);
        self.without_arguments.extend(other.without_arguments);
        self.broken.extend(other.broken);
    }

    pub(super) fn add_obstacles(&mut self, tool: &str, converted: &ProviderSchema) {
        for change in &converted.changes {
            if let SchemaChangeKind::NotStrict { reason } = &change.kind {
                self.not_strict.insert(format!("{tool}: {}: {reason}", change.keyword));
            }
        }
    }
}

/// Formats `list` as text, with one entry per line.
pub(super) fn lines(list: &BTreeSet<String>) -> String {
    list.iter().map(|entry| format!("{entry}\n")).collect()
}
