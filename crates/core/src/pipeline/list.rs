use std::{
    collections::{BTreeMap, btree_map::Entry},
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use super::Pipeline;
use crate::{
    schema::memo::TypeMemo,
    tool::{Tool, ToolName},
};

/// One snapshot of tools: the tools in order, an index by name, and what is missing from it and why.
///
/// Cheap to clone. A snapshot never changes, and its id is never used for another.
#[derive(Clone)]
pub struct ToolList(Arc<Snapshot>);

struct Snapshot {
    id: u64,
    tools: Vec<Arc<dyn Tool>>,
    /// The origin of each tool, by the same index.
    origins: Vec<Origin>,
    index: BTreeMap<ToolName, usize>,
    diagnostics: Vec<Diagnostic>,
    memo: TypeMemo,
}

/// Where a listed tool comes from.
#[derive(Clone, Default)]
pub(crate) struct Origin {
    /// The label of the source or toolset. `None` for an unnamed toolset.
    pub(crate) label: Option<Arc<str>>,
    /// The pipeline of the toolset that the tool belongs to, if it has one of its own.
    pub(crate) pipeline: Option<Pipeline>,
}

/// The label of an unnamed toolset.
pub(crate) const UNNAMED: &str = "the toolset";

impl Origin {
    pub(crate) fn of_source(label: &str) -> Self {
        Self { label: Some(label.into()), pipeline: None }
    }

    fn label(&self) -> &str {
        self.label.as_deref().unwrap_or(UNNAMED)
    }
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
    /// second and what has a [defect](crate::tool::ToolDefinition::defect) become diagnostics.
    pub fn new<T: Tool + 'static>(label: &str, tools: impl IntoIterator<Item = T>) -> Self {
        Self::gather(tools.into_iter().map(|tool| (label, Arc::new(tool) as Arc<dyn Tool>)), Vec::new())
    }

    /// Makes a snapshot of tools from several sources, each with its source's label, besides what is known to
    /// be missing.
    pub fn gather<'a>(
        tools: impl IntoIterator<Item = (&'a str, Arc<dyn Tool>)>,
        diagnostics: Vec<Diagnostic>,
    ) -> Self {
        Self::from_origins(
            tools.into_iter().map(|(label, tool)| (Origin::of_source(label), tool)),
            diagnostics,
        )
    }

    /// Returns a snapshot of the tools that `adapt` returns, in order. Each keeps the pipeline and the label of the
    /// tool that it replaces.
    #[must_use]
    pub fn filter_map(&self, mut adapt: impl FnMut(&Arc<dyn Tool>) -> Option<Arc<dyn Tool>>) -> Self {
        let adapted = self.entries().filter_map(|(origin, tool)| Some((origin.clone(), adapt(tool)?)));
        Self::from_origins(adapted, self.diagnostics().to_vec())
    }

    pub(crate) fn from_origins(
        tools: impl IntoIterator<Item = (Origin, Arc<dyn Tool>)>,
        mut diagnostics: Vec<Diagnostic>,
    ) -> Self {
        let mut snapshot = Snapshot::new(Vec::new(), Vec::new());
        for (origin, tool) in tools {
            let definition = tool.definition();
            let source_label = origin.label().to_owned();
            if let Some(defect) = definition.defect() {
                let (tool, reason) = (definition.name().to_string(), defect.to_owned());
                diagnostics.push(Diagnostic::Quarantined { tool, source_label, reason });
                continue;
            }
            match snapshot.index.entry(definition.name().clone()) {
                Entry::Occupied(entry) => {
                    let taken_by = snapshot.origins.get(*entry.get()).map_or(UNNAMED, Origin::label);
                    let (tool, taken_by) = (entry.key().clone(), taken_by.to_owned());
                    diagnostics.push(Diagnostic::NameTaken { tool, source_label, taken_by });
                }
                Entry::Vacant(entry) => {
                    entry.insert(snapshot.tools.len());
                    snapshot.tools.push(tool);
                    snapshot.origins.push(origin);
                }
            }
        }
        Self(Arc::new(Snapshot { diagnostics, ..snapshot }))
    }

    /// The tools with their origins, in order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&Origin, &Arc<dyn Tool>)> {
        self.0.origins.iter().zip(&self.0.tools)
    }

    /// The tool of a name, with the pipeline of its toolset if it has one of its own.
    pub(super) fn entry(&self, name: &str) -> Option<(&Arc<dyn Tool>, Option<&Pipeline>)> {
        let index = *self.0.index.get(name)?;
        Some((self.0.tools.get(index)?, self.0.origins.get(index)?.pipeline.as_ref()))
    }

    /// The labels of sources that could not be listed, with the reasons.
    pub(crate) fn failed_sources(&self) -> impl Iterator<Item = (&str, &str)> {
        self.diagnostics().iter().filter_map(|diagnostic| match diagnostic {
            Diagnostic::SourceFailed { source_label, reason } => Some((&**source_label, &**reason)),
            _ => None,
        })
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
        self.0.memo.get_or_insert_with(|| render(self))
    }
}

impl Snapshot {
    fn new(tools: Vec<Arc<dyn Tool>>, origins: Vec<Origin>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let (index, diagnostics, memo) = Default::default();
        Self { id, tools, origins, index, diagnostics, memo }
    }
}

/// An empty snapshot.
impl Default for ToolList {
    fn default() -> Self {
        Self(Arc::new(Snapshot::new(Vec::new(), Vec::new())))
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
