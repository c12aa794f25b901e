use std::sync::Arc;

use super::{OWN, labelled};
use crate::{Diagnostic, SourceError, State, StateType, Tool, ToolList, recent::Recent};

/// What a source answered.
pub(crate) type Listing = Result<ToolList, SourceError>;

/// What the sources answered, by what tells one answer from another: the snapshot's id, or the reason for there
/// being none.
pub(crate) type Identity = Vec<Result<u64, String>>;

pub(crate) fn identity(listings: &[(&str, Listing)]) -> Identity {
    let id = |listing: &Listing| listing.as_ref().map(ToolList::id).map_err(|error| error.reason.clone());
    listings.iter().map(|(_, listing)| id(listing)).collect()
}

/// Puts what sources answered behind the tools that are there anyway.
pub(crate) fn gather<'a>(
    mut tools: Vec<(&'a str, Arc<dyn Tool>)>,
    listings: &'a [(&'a str, Listing)],
) -> ToolList {
    let mut diagnostics = Vec::new();
    for (label, listing) in listings {
        match listing {
            Ok(list) => {
                diagnostics.extend_from_slice(list.diagnostics());
                tools.extend(list.tools().iter().map(|tool| (*label, Arc::clone(tool))));
            }
            Err(error) => diagnostics.push(Diagnostic::SourceFailed {
                source_label: (*label).to_owned(),
                reason: error.reason.clone(),
            }),
        }
    }
    ToolList::gather(tools, diagnostics)
}

/// A toolset's answer.
pub(super) struct Gathered {
    /// All that is offered, whatever the host gives.
    all: ToolList,
    /// The types of state that the tools ask for.
    asked: Vec<StateType>,
    /// What was offered to hosts that did not give all of them, by what was missing.
    withheld: Recent<Vec<StateType>, ToolList>,
}

impl Gathered {
    /// Gathers a toolset's own tools, which have their names whatever a source lists, and those of its sources.
    pub(super) fn new<'a>(
        own: impl Iterator<Item = &'a Arc<dyn Tool>>,
        listings: Vec<(&'a str, Listing)>,
    ) -> Self {
        let all = gather(own.map(labelled).collect(), &listings);
        let mut asked = Vec::new();
        for state in all.tools().iter().flat_map(|tool| tool.definition().state()) {
            if !asked.contains(state) {
                asked.push(*state);
            }
        }
        Self { all, asked, withheld: Recent::default() }
    }

    /// All tools, also those whose state must be given first.
    pub(super) fn all(&self) -> ToolList {
        self.all.clone()
    }

    /// The tools whose state is given.
    pub(super) fn offered_with(&mut self, state: &State) -> ToolList {
        let missing: Vec<_> = state.missing(&self.asked).copied().collect();
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
    for tool in all.tools() {
        let definition = tool.definition();
        match definition.state().iter().find(|asked| missing.contains(asked)) {
            None => tools.push(labelled(tool)),
            Some(lacking) => diagnostics.push(Diagnostic::Quarantined {
                tool: definition.name().to_string(),
                source_label: OWN.to_owned(),
                reason: format!("the host program gives no state of type {}", lacking.name()),
            }),
        }
    }
    ToolList::gather(tools, diagnostics)
}
