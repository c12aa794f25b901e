//! Merging the tools of a toolset, its sources and its inner toolsets into one snapshot.

use std::{collections::HashSet, sync::Arc};

use super::SourceError;
use crate::{
    pipeline::{DEFAULT_LABEL, Diagnostic, Origin, Pipeline, ToolExt as _, ToolList},
    small_lru::SmallLru,
    tool::{HostState, StateType, Tool, ToolName},
};

/// The result of listing the tools of one source.
pub(super) type Listing = Result<ToolList, SourceError>;

/// The listing of a source or of an inner toolset.
pub(super) struct PartListing<'a> {
    pub(super) label: &'a str,
    pub(super) listing: Listing,
    /// The prefix for tools with the name of an earlier tool. Without a prefix, they are withheld.
    pub(super) conflict_prefix: Option<&'a str>,
}

impl<'a> PartListing<'a> {
    pub(super) fn new(label: &'a str, listing: Listing) -> Self {
        Self { label, listing, conflict_prefix: None }
    }
}

/// The cache key of [`MergedTools`]: for each listing, the id of the snapshot, or the error message
/// if the listing failed.
pub(super) type MergeKey = Vec<Result<u64, String>>;

pub(super) fn merge_key(listings: &[PartListing<'_>]) -> MergeKey {
    let id =
        |listing: &Listing| listing.as_ref().map(ToolList::snapshot_id).map_err(|error| error.reason.clone());
    listings.iter().map(|part| id(&part.listing)).collect()
}

/// The merged tools of a toolset, its sources and its inner toolsets.
pub(super) struct MergedTools {
    /// All tools, including tools whose host state may be missing for a caller.
    all: ToolList,
    /// All types of host state declared by the tools.
    declared_state_types: Vec<StateType>,
    /// The cached snapshots for callers that lack some of the declared host state, by the missing
    /// types. A snapshot omits the tools that declare a missing type.
    available_lists: SmallLru<Vec<StateType>, ToolList>,
}

/// The label and the pipeline of a toolset, if they are set. The label applies to tools that have
/// no label from an inner toolset or source. The pipeline applies to all tools, combined with the
/// pipeline of their inner toolset, if any.
#[derive(Clone, Default)]
pub(super) struct Defaults {
    pub(super) label: Option<Arc<str>>,
    pub(super) pipeline: Option<Pipeline>,
}

impl Defaults {
    fn apply(&self, origin: &Origin) -> Origin {
        let pipeline = match (&origin.pipeline, &self.pipeline) {
            (Some(inner), Some(outer)) => Some(inner.nested_in(outer)),
            (inner, outer) => inner.as_ref().or(outer.as_ref()).cloned(),
        };
        Origin { label: origin.label.clone().or_else(|| self.label.clone()), pipeline }
    }

    /// Returns `true` if these defaults change neither the label nor the pipeline of any tool in
    /// `list`.
    fn keeps_origins(&self, list: &ToolList) -> bool {
        self.pipeline.is_none()
            && (self.label.is_none() || list.origin_tools().all(|(origin, _)| origin.label.is_some()))
    }

    /// Creates a snapshot of `tools`. Each tool gets the label and the pipeline of these defaults.
    pub(super) fn build_list(&self, tools: impl Iterator<Item = Arc<dyn Tool>>) -> ToolList {
        let origin = self.apply(&Origin::default());
        ToolList::from_origins(tools.map(|tool| (origin.clone(), tool)), Vec::new())
    }
}

impl MergedTools {
    /// Merges `own`, the direct tools of the toolset, with the `listings` of its sources and inner
    /// toolsets. If several tools have the same name, the first keeps it, and the others are
    /// renamed or withheld. The tools in `own` come first.
    pub(super) fn new(
        own: impl Iterator<Item = Arc<dyn Tool>>,
        listings: &[PartListing<'_>],
        defaults: &Defaults,
    ) -> Self {
        let mut diagnostics = Vec::new();
        let origin = defaults.apply(&Origin::default());
        let mut tools: Vec<_> = own.map(|tool| (origin.clone(), tool)).collect();
        for PartListing { label, listing, conflict_prefix } in listings {
            match listing {
                Ok(list) => {
                    diagnostics.extend_from_slice(list.diagnostics());
                    let taken =
                        conflict_prefix.map(|prefix| (prefix, usable_names(tools.iter().map(|it| &it.1))));
                    tools.extend(list.origin_tools().map(|(origin, tool)| {
                        let tool = match &taken {
                            Some((prefix, names)) => with_unique_name(tool, names, prefix),
                            None => Arc::clone(tool),
                        };
                        (defaults.apply(origin), tool)
                    }));
                }
                Err(error) => diagnostics.push(Diagnostic::SourceFailed {
                    source_label: (*label).to_owned(),
                    reason: error.reason.clone(),
                }),
            }
        }
        let all = match listings {
            // If there is only one listing and no direct tool, and the defaults change nothing, the
            // listed snapshot is reused and keeps its id.
            [PartListing { listing: Ok(list), .. }]
                if tools.len() == list.len() && defaults.keeps_origins(list) =>
            {
                list.clone()
            }
            _ => ToolList::from_origins(tools, diagnostics),
        };
        let mut declared_state_types = Vec::new();
        for state in all.tools().iter().flat_map(|tool| tool.definition().state_types()) {
            if !declared_state_types.contains(state) {
                declared_state_types.push(*state);
            }
        }
        Self { all, declared_state_types, available_lists: SmallLru::default() }
    }

    pub(super) fn all(&self) -> ToolList {
        self.all.clone()
    }

    /// Returns a snapshot of the tools whose declared types of host state are all in `state`.
    pub(super) fn list_available(&mut self, state: &HostState) -> ToolList {
        let missing: Vec<_> = state.missing_types(&self.declared_state_types).copied().collect();
        if missing.is_empty() {
            return self.all();
        }
        let all = &self.all;
        self.available_lists.get_or_insert_with(missing, |missing| withhold_tools(all, missing)).clone()
    }
}

/// Returns the names of the `tools` without a defect.
pub(super) fn usable_names<'a>(tools: impl Iterator<Item = &'a Arc<dyn Tool>>) -> HashSet<ToolName> {
    let usable = tools.map(Tool::definition).filter(|it| it.defect().is_none());
    usable.map(|definition| definition.name().clone()).collect()
}

/// Returns `tool`, with `prefix` in front of its name if the name is in `names`.
pub(super) fn with_unique_name(
    tool: &Arc<dyn Tool>,
    names: &HashSet<ToolName>,
    prefix: &str,
) -> Arc<dyn Tool> {
    let is_taken = names.contains(tool.definition().name());
    if is_taken { with_prefix(tool, prefix) } else { Arc::clone(tool) }
}

/// Returns `tool` with `prefix` in front of its name. [`ToolName::sanitize`] makes the name valid.
pub(super) fn with_prefix(tool: &Arc<dyn Tool>, prefix: &str) -> Arc<dyn Tool> {
    let name = ToolName::sanitize(&format!("{prefix}{}", tool.definition().name()));
    Arc::new(Arc::clone(tool).with_definition(|it| it.with_name(name)))
}

/// Returns a snapshot of `all` without the tools that declare one of the `missing` types of host
/// state. The new snapshot contains a diagnostic for each removed tool.
fn withhold_tools(all: &ToolList, missing: &[StateType]) -> ToolList {
    let mut diagnostics = all.diagnostics().to_vec();
    let mut tools = Vec::new();
    for (origin, tool) in all.origin_tools() {
        let definition = tool.definition();
        match definition.state_types().iter().find(|declared| missing.contains(declared)) {
            None => tools.push((origin.clone(), Arc::clone(tool))),
            Some(missing) => diagnostics.push(Diagnostic::Quarantined {
                tool: definition.name().to_string(),
                source_label: origin.label.as_deref().unwrap_or(DEFAULT_LABEL).to_owned(),
                reason: format!("the host program provides no state of type {}", missing.name()),
            }),
        }
    }
    ToolList::from_origins(tools, diagnostics)
}
