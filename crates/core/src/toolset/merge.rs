//! Merging the listings of the parts of a toolset.

use std::sync::Arc;

use super::{SourceError, recent::Recent};
use crate::{
    pipeline::{Diagnostic, Origin, Pipeline, ToolList, UNNAMED},
    tool::{State, StateType, Tool},
};

/// The listing of one source.
pub(super) type Listing = Result<ToolList, SourceError>;

/// The listings of all parts, identified by the snapshot's id or by the reason of the failure.
pub(super) type Identity = Vec<Result<u64, String>>;

pub(super) fn identity(listings: &[(String, Listing)]) -> Identity {
    let id = |listing: &Listing| listing.as_ref().map(ToolList::id).map_err(|error| error.reason.clone());
    listings.iter().map(|(_, listing)| id(listing)).collect()
}

/// The merged tools of a toolset.
pub(super) struct Merged {
    /// All tools, whatever state the host provides.
    all: ToolList,
    /// The state types that the tools declare.
    declared: Vec<StateType>,
    /// The lists for hosts that do not provide all state, by the missing types.
    withheld: Recent<Vec<StateType>, ToolList>,
}

/// The defaults that a toolset gives to tools without an own label or pipeline.
#[derive(Clone, Default)]
pub(super) struct Defaults {
    pub(super) label: Option<Arc<str>>,
    pub(super) pipeline: Option<Pipeline>,
}

impl Defaults {
    fn apply(&self, origin: &Origin) -> Origin {
        let pipeline = match (&origin.pipeline, &self.pipeline) {
            (Some(inner), Some(outer)) => Some(inner.inside(outer)),
            (inner, outer) => inner.as_ref().or(outer.as_ref()).cloned(),
        };
        Origin { label: origin.label.clone().or_else(|| self.label.clone()), pipeline }
    }

    /// Returns `true` if applying the defaults changes no origin of the list.
    fn keep(&self, list: &ToolList) -> bool {
        self.pipeline.is_none()
            && (self.label.is_none() || list.entries().all(|(origin, _)| origin.label.is_some()))
    }

    /// Makes a snapshot of tools that were given as values.
    pub(super) fn list(&self, tools: impl Iterator<Item = Arc<dyn Tool>>) -> ToolList {
        let origin = self.apply(&Origin::default());
        ToolList::from_origins(tools.map(|tool| (origin.clone(), tool)), Vec::new())
    }
}

impl Merged {
    /// Merges tools that were given as values, which take precedence, and the listings of sources.
    pub(super) fn new(
        own: impl Iterator<Item = Arc<dyn Tool>>,
        listings: &[(String, Listing)],
        defaults: &Defaults,
    ) -> Self {
        let mut diagnostics = Vec::new();
        let origin = defaults.apply(&Origin::default());
        let mut tools: Vec<_> = own.map(|tool| (origin.clone(), tool)).collect();
        for (label, listing) in listings {
            match listing {
                Ok(list) => {
                    diagnostics.extend_from_slice(list.diagnostics());
                    tools.extend(
                        list.entries().map(|(origin, tool)| (defaults.apply(origin), Arc::clone(tool))),
                    );
                }
                Err(error) => diagnostics.push(Diagnostic::SourceFailed {
                    source_label: label.clone(),
                    reason: error.reason.clone(),
                }),
            }
        }
        let all = match listings {
            // A single listing that stays as it is keeps its identity.
            [(_, Ok(list))] if tools.len() == list.len() && defaults.keep(list) => list.clone(),
            _ => ToolList::from_origins(tools, diagnostics),
        };
        let mut declared = Vec::new();
        for state in all.tools().iter().flat_map(|tool| tool.definition().state()) {
            if !declared.contains(state) {
                declared.push(*state);
            }
        }
        Self { all, declared, withheld: Recent::default() }
    }

    pub(super) fn all(&self) -> ToolList {
        self.all.clone()
    }

    /// Returns the tools whose declared state is provided.
    pub(super) fn with_state(&mut self, state: &State) -> ToolList {
        let missing: Vec<_> = state.missing(&self.declared).copied().collect();
        if missing.is_empty() {
            return self.all();
        }
        let all = &self.all;
        self.withheld.get_or_insert_with(missing, |missing| withhold(all, missing)).clone()
    }
}

fn withhold(all: &ToolList, missing: &[StateType]) -> ToolList {
    let mut diagnostics = all.diagnostics().to_vec();
    let mut tools = Vec::new();
    for (origin, tool) in all.entries() {
        let definition = tool.definition();
        match definition.state().iter().find(|declared| missing.contains(declared)) {
            None => tools.push((origin.clone(), Arc::clone(tool))),
            Some(lacking) => diagnostics.push(Diagnostic::Quarantined {
                tool: definition.name().to_string(),
                source_label: origin.label.as_deref().unwrap_or(UNNAMED).to_owned(),
                reason: format!("the host program gives no state of type {}", lacking.name()),
            }),
        }
    }
    ToolList::from_origins(tools, diagnostics)
}
