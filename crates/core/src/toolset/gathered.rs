use std::sync::Arc;

use super::OWN;
use crate::{Diagnostic, SourceError, State, StateType, Tool, ToolList, ToolSource};

/// What a source answered.
pub(super) type Listing = Result<ToolList, SourceError>;

/// What a toolset answered last, and what that was made of.
pub(super) struct Gathered {
    of: Vec<Identity>,
    /// All that is offered, whatever the host gives.
    all: ToolList,
    /// The types of state that the tools ask for.
    asked: Vec<StateType>,
    /// What was offered to a host that did not give all of them.
    without_state: Option<(Vec<StateType>, ToolList)>,
}

/// What tells one answer of a source from another: the snapshot's id, or the reason for there being none.
#[derive(PartialEq)]
pub(super) struct Identity(Result<u64, String>);

impl Identity {
    pub(super) fn of(listing: &Listing) -> Self {
        Self(listing.as_ref().map(ToolList::id).map_err(|error| error.reason.clone()))
    }
}

impl Gathered {
    /// Gathers a toolset's own tools, which have their names whatever a source lists, and those of its sources.
    pub(super) fn new<'a>(
        own: impl Iterator<Item = &'a Arc<dyn Tool>>,
        listings: Vec<(&'a dyn ToolSource, Listing)>,
    ) -> Self {
        let of = listings.iter().map(|(_, listing)| Identity::of(listing)).collect();
        let mut tools: Vec<_> = own.map(|tool| (OWN, Arc::clone(tool))).collect();
        let mut diagnostics = Vec::new();
        for (source, listing) in listings {
            let label = source.label();
            match listing {
                Ok(list) => {
                    diagnostics.extend_from_slice(list.diagnostics());
                    tools.extend(list.tools().iter().map(|tool| (label, Arc::clone(tool))));
                }
                Err(error) => diagnostics
                    .push(Diagnostic::SourceFailed { source_label: label.to_owned(), reason: error.reason }),
            }
        }
        let all = ToolList::gather(tools, diagnostics);
        let asked = all.tools().iter().flat_map(|tool| tool.definition().state()).copied().collect();
        Self { of, all, asked, without_state: None }
    }

    pub(super) fn is_of(&self, listings: &[(&dyn ToolSource, Listing)]) -> bool {
        self.of.len() == listings.len()
            && self.of.iter().zip(listings).all(|(of, (_, listing))| *of == Identity::of(listing))
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
        match &self.without_state {
            Some((of, list)) if *of == missing => list.clone(),
            _ => {
                let list = withhold(&self.all, &missing);
                self.without_state = Some((missing, list.clone()));
                list
            }
        }
    }
}

fn withhold(all: &ToolList, missing: &[StateType]) -> ToolList {
    let mut diagnostics = all.diagnostics().to_vec();
    let mut tools = Vec::new();
    for tool in all.tools() {
        let definition = tool.definition();
        match definition.state().iter().find(|asked| missing.contains(asked)) {
            None => tools.push((OWN, Arc::clone(tool))),
            Some(lacking) => diagnostics.push(Diagnostic::Quarantined {
                tool: definition.name().to_string(),
                source_label: OWN.to_owned(),
                reason: format!("the host program gives no state of type {}", lacking.name()),
            }),
        }
    }
    ToolList::gather(tools, diagnostics)
}
