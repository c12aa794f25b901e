use std::{
    collections::{BTreeMap, btree_map::Entry},
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use super::Pipeline;
use crate::{
    schema::memo::TypeMemo,
    small_lru::SmallLru,
    tool::{RedefinedTool, Tool, ToolDefinition, ToolName},
};

/// An immutable, ordered snapshot of tools, with diagnostics about missing tools. It is cheap to
/// clone.
///
/// Each snapshot has an id that is unique in the process.
#[derive(Clone)]
pub struct ToolList(Arc<Snapshot>);

struct Snapshot {
    id: u64,
    tools: Vec<Arc<dyn Tool>>,
    /// The origin of each tool, at the index of the tool in `tools`.
    origins: Vec<Origin>,
    index: BTreeMap<ToolName, usize>,
    diagnostics: Vec<Diagnostic>,
    memo: TypeMemo,
    /// The cached snapshots of [`ToolList::redefined`], by the definition of each tool.
    redefined: Mutex<SmallLru<Vec<Option<ToolDefinition>>, ToolList>>,
}

/// The toolset or source that a listed tool comes from.
#[derive(Clone, Default)]
pub(crate) struct Origin {
    /// The label of the source or toolset that contains the tool. `None` for a toolset without a
    /// label.
    pub(crate) label: Option<Arc<str>>,
    /// The pipeline of the tool's toolset, combined with the pipelines of its outer toolsets.
    /// `None` if no pipeline was set for any of these toolsets.
    pub(crate) pipeline: Option<Pipeline>,
}

/// The label used in diagnostics for a toolset without a label.
pub(crate) const DEFAULT_LABEL: &str = "the toolset";

impl Origin {
    pub(crate) fn of_source(label: &str) -> Self {
        Self { label: Some(label.into()), pipeline: None }
    }

    fn label(&self) -> &str {
        self.label.as_deref().unwrap_or(DEFAULT_LABEL)
    }
}

/// A message about a tool that is missing from a snapshot or is not checked, or about a source
/// whose list is missing or incomplete.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Diagnostic {
    /// A tool is withheld because of a defect, such as an invalid schema, or because of missing
    /// host state.
    #[error("tool \"{tool}\" of {source_label} is quarantined: {reason}")]
    Quarantined {
        /// The name of the tool.
        tool: String,
        /// The label of the source.
        source_label: String,
        /// The defect, or the missing type of host state.
        reason: String,
    },
    /// A tool is withheld because an earlier tool has the same name.
    #[error(
        "tool \"{tool}\" of {source_label} is withheld: {taken_by} has a tool of that name; rename or prefix one"
    )]
    NameTaken {
        /// The name that both tools share.
        tool: ToolName,
        /// The label of the withheld tool's source.
        source_label: String,
        /// The label of the earlier tool's source.
        taken_by: String,
    },
    /// A tool is offered without a check that its definition requests, for example because a
    /// pattern of its schema cannot be compiled.
    #[error("tool \"{tool}\" of {source_label} is offered without a check: {reason}")]
    Unchecked {
        /// The name of the tool.
        tool: String,
        /// The label of the source.
        source_label: String,
        /// The part of the definition that is not checked, and its defect.
        reason: String,
    },
    /// The list of a source is incomplete. The tools before the fault are offered.
    #[error("the tool list of {source_label} may be incomplete: {reason}")]
    Incomplete {
        /// The label of the source.
        source_label: String,
        /// The fault in the list.
        reason: String,
    },
    /// The tools of a source could not be listed.
    #[error("tool source {source_label} has no tools: {reason}")]
    SourceFailed {
        /// The label of the source.
        source_label: String,
        /// The error message of the source.
        reason: String,
    },
}

impl ToolList {
    /// Creates a snapshot of tools from the source named `label`.
    ///
    /// A tool with a [defect](crate::tool::ToolDefinition::defect), or with the name of an earlier
    /// tool, is withheld and reported as a diagnostic.
    pub fn new<T: Tool + 'static>(label: &str, tools: impl IntoIterator<Item = T>) -> Self {
        Self::collect(tools.into_iter().map(|tool| (label, Arc::new(tool) as Arc<dyn Tool>)), Vec::new())
    }

    /// Creates a snapshot of tools from several sources. Each item of `tools` is a pair of the
    /// label of a source and one of its tools. Tools are withheld for the same reasons as in
    /// [`new`](Self::new). The diagnostics about withheld tools are added to `diagnostics`.
    pub fn collect<'a>(
        tools: impl IntoIterator<Item = (&'a str, Arc<dyn Tool>)>,
        diagnostics: Vec<Diagnostic>,
    ) -> Self {
        Self::from_origins(
            tools.into_iter().map(|(label, tool)| (Origin::of_source(label), tool)),
            diagnostics,
        )
    }

    /// Returns a new snapshot in which each tool is replaced by the tool returned by `adapt`. A
    /// tool is omitted if `adapt` returns `None`.
    ///
    /// The new tool has the pipeline and the source label of the original tool. The new snapshot
    /// keeps the diagnostics of this snapshot. Tools are withheld for the same reasons as in
    /// [`new`](Self::new).
    #[must_use]
    pub fn filter_map(&self, mut adapt: impl FnMut(&Arc<dyn Tool>) -> Option<Arc<dyn Tool>>) -> Self {
        let adapted = self.origin_tools().filter_map(|(origin, tool)| Some((origin.clone(), adapt(tool)?)));
        Self::from_origins(adapted, self.diagnostics().to_vec())
    }

    /// Returns a snapshot in which each tool has the definition at its index in `definitions`, or is
    /// omitted if this is `None`. Otherwise, the new snapshot is as from
    /// [`filter_map`](Self::filter_map).
    ///
    /// If all definitions are unchanged, the snapshot is this snapshot. Equal `definitions` give the
    /// same snapshot again: the 8 most recently used snapshots are cached, with their [memoized
    /// values](Self::memoize).
    #[must_use]
    pub fn redefined(&self, definitions: Vec<Option<ToolDefinition>>) -> Self {
        let is_same = |(tool, definition): (&Arc<dyn Tool>, &Option<ToolDefinition>)| {
            definition.as_ref() == Some(tool.definition())
        };
        if self.tools().iter().zip(&definitions).all(is_same) && definitions.len() == self.len() {
            return self.clone();
        }
        let redefine = |definitions: &Vec<Option<ToolDefinition>>| {
            let mut definitions = definitions.iter();
            self.filter_map(|tool| {
                let (tool, definition) = (Arc::clone(tool), definitions.next()?.as_ref()?);
                let is_same = tool.definition() == definition;
                Some(if is_same { tool } else { Arc::new(RedefinedTool::new(tool, definition.clone())) })
            })
        };
        let mut cached = self.0.redefined.lock().unwrap_or_else(PoisonError::into_inner);
        cached.get_or_insert_with(definitions, redefine).clone()
    }

    pub(crate) fn from_origins(
        tools: impl IntoIterator<Item = (Origin, Arc<dyn Tool>)>,
        mut diagnostics: Vec<Diagnostic>,
    ) -> Self {
        let mut snapshot = Snapshot::new();
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
                    let taken_by = snapshot.origins.get(*entry.get()).map_or(DEFAULT_LABEL, Origin::label);
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

    /// Returns the tools with their origins, in order.
    pub(crate) fn origin_tools(&self) -> impl Iterator<Item = (&Origin, &Arc<dyn Tool>)> {
        self.0.origins.iter().zip(&self.0.tools)
    }

    /// Returns the tool named `name`, and the pipeline of its toolset, if one was set. `None` if
    /// there is no such tool.
    pub(super) fn tool_and_pipeline(&self, name: &str) -> Option<(&Arc<dyn Tool>, Option<&Pipeline>)> {
        let index = *self.0.index.get(name)?;
        Some((self.0.tools.get(index)?, self.0.origins.get(index)?.pipeline.as_ref()))
    }

    /// Returns the label and the error message of each source that could not be listed.
    pub(crate) fn failed_sources(&self) -> impl Iterator<Item = (&str, &str)> {
        self.diagnostics().iter().filter_map(|diagnostic| match diagnostic {
            Diagnostic::SourceFailed { source_label, reason } => Some((&**source_label, &**reason)),
            _ => None,
        })
    }

    /// Returns the id of the snapshot. It is unique in the process.
    pub fn snapshot_id(&self) -> u64 {
        self.0.id
    }

    /// Returns the tools, in order.
    pub fn tools(&self) -> &[Arc<dyn Tool>] {
        &self.0.tools
    }

    /// Returns the tool named `name`. `None` if there is no such tool.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.0.tools.get(*self.0.index.get(name)?)
    }

    /// Returns the names of the tools, in order.
    pub fn names(&self) -> impl Iterator<Item = &ToolName> {
        self.0.tools.iter().map(|tool| tool.definition().name())
    }

    /// Returns the number of tools.
    pub fn len(&self) -> usize {
        self.0.tools.len()
    }

    /// Returns `true` if the snapshot has no tools.
    pub fn is_empty(&self) -> bool {
        self.0.tools.is_empty()
    }

    /// Returns the diagnostics about missing tools and sources.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.0.diagnostics
    }

    /// Returns a value derived from this snapshot, such as the tools in a provider's format.
    /// `compute` is called the first time, and the snapshot caches the value.
    ///
    /// The snapshot caches one value per type `T`, for at most 8 types. Values of further types are
    /// computed at each call. To avoid conflicts with other callers, use a type of your own.
    pub fn memoize<T: Send + Sync + 'static>(&self, compute: impl FnOnce(&Self) -> T) -> Arc<T> {
        self.0.memo.get_or_insert_with(|| compute(self))
    }
}

impl Snapshot {
    /// Creates an empty snapshot with a new id.
    fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let (tools, origins, index, diagnostics, memo, redefined) = Default::default();
        Self { id: NEXT.fetch_add(1, Ordering::Relaxed), tools, origins, index, diagnostics, memo, redefined }
    }
}

/// Creates an empty snapshot.
impl Default for ToolList {
    fn default() -> Self {
        Self(Arc::new(Snapshot::new()))
    }
}

impl fmt::Debug for ToolList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolList")
            .field("id", &self.snapshot_id())
            .field("names", &self.names().collect::<Vec<_>>())
            .field("diagnostics", &self.diagnostics())
            .finish()
    }
}
