use std::{
    collections::{BTreeMap, btree_map::Entry},
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::{Tool, ToolName, rendering::RenderingSlot};

/// One snapshot of tools: the tools in order, an index by name, and what is missing from it and why.
///
/// Cheap to clone. A snapshot never changes, and its id is never used for another.
#[derive(Clone)]
pub struct ToolList(Arc<Snapshot>);

struct Snapshot {
    id: u64,
    tools: Vec<Arc<dyn Tool>>,
    index: BTreeMap<ToolName, usize>,
    diagnostics: Vec<Diagnostic>,
    rendering: RenderingSlot,
}

/// A tool or a source that is missing from a list, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Diagnostic {
    /// A tool cannot be used: its schema is refused, or its state is missing.
    #[error("tool \"{tool}\" of {source_label} is quarantined: {reason}")]
    Quarantined {
        /// The tool, by its source's name for it.
        tool: String,
        /// The source's label.
        source_label: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A tool's name was taken already.
    #[error(
        "tool \"{tool}\" of {source_label} is withheld: {taken_by} has a tool of that name; rename or prefix one"
    )]
    NameTaken {
        /// The name.
        tool: ToolName,
        /// The label of the source that came later.
        source_label: String,
        /// The label of the source that has the name.
        taken_by: String,
    },
    /// A source offers nothing.
    #[error("tool source {source_label} has no tools: {reason}")]
    SourceFailed {
        /// The source's label.
        source_label: String,
        /// Why.
        reason: String,
    },
}

impl ToolList {
    /// Makes a snapshot of tools from the source `label`. The first of two tools with one name is kept, the
    /// second and what has a [defect](crate::ToolDefinition::defect) become diagnostics.
    pub fn new<T: Tool + 'static>(label: &str, tools: impl IntoIterator<Item = T>) -> Self {
        Self::gather(tools.into_iter().map(|tool| (label, Arc::new(tool) as Arc<dyn Tool>)), Vec::new())
    }

    /// Makes a snapshot of tools from several sources, each with its source's label, besides what is known to
    /// be missing.
    pub fn gather<'a>(
        tools: impl IntoIterator<Item = (&'a str, Arc<dyn Tool>)>,
        mut diagnostics: Vec<Diagnostic>,
    ) -> Self {
        let mut kept: Vec<Arc<dyn Tool>> = Vec::new();
        let mut labels: Vec<&str> = Vec::new();
        let mut index: BTreeMap<ToolName, usize> = BTreeMap::new();
        for (label, tool) in tools {
            let definition = tool.definition();
            let source_label = label.to_owned();
            if let Some(defect) = definition.defect() {
                let (tool, reason) = (definition.name().to_string(), defect.to_owned());
                diagnostics.push(Diagnostic::Quarantined { tool, source_label, reason });
                continue;
            }
            match index.entry(definition.name().clone()) {
                Entry::Occupied(entry) => {
                    let taken_by =
                        labels.get(*entry.get()).map_or_else(String::new, |label| (*label).to_owned());
                    let tool = entry.key().clone();
                    diagnostics.push(Diagnostic::NameTaken { tool, source_label, taken_by });
                }
                Entry::Vacant(entry) => {
                    entry.insert(kept.len());
                    kept.push(tool);
                    labels.push(label);
                }
            }
        }
        Self::with_index(kept, index, diagnostics)
    }

    fn with_index(
        tools: Vec<Arc<dyn Tool>>,
        index: BTreeMap<ToolName, usize>,
        diagnostics: Vec<Diagnostic>,
    ) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(Arc::new(Snapshot { id, tools, index, diagnostics, rendering: RenderingSlot::default() }))
    }

    /// Names this snapshot; never used for another in this process.
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// The tools, in order.
    pub fn tools(&self) -> &[Arc<dyn Tool>] {
        &self.0.tools
    }

    /// The tool of a name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.0.tools.get(*self.0.index.get(name)?)
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &ToolName> {
        self.0.tools.iter().map(|tool| tool.definition().name())
    }

    /// How many tools there are.
    pub fn len(&self) -> usize {
        self.0.tools.len()
    }

    /// Whether there are no tools.
    pub fn is_empty(&self) -> bool {
        self.0.tools.is_empty()
    }

    /// What is missing, and why.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.0.diagnostics
    }

    /// What an adapter made of this snapshot, rendered at most once for the first adapter that asks.
    pub fn rendering<T: Send + Sync + 'static>(&self, render: impl FnOnce(&Self) -> T) -> Arc<T> {
        self.0.rendering.get_or_render(|| render(self))
    }
}

/// No tools.
impl Default for ToolList {
    fn default() -> Self {
        Self::with_index(Vec::new(), BTreeMap::new(), Vec::new())
    }
}

impl fmt::Debug for ToolList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolList")
            .field("id", &self.id())
            .field("names", &self.names().collect::<Vec<_>>())
            .field("diagnostics", &self.diagnostics())
            .finish()
    }
}
