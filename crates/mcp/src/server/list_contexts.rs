use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use haft_core::{
    tool::{HostState, Principal},
    toolset::ListContext,
};

/// The maximum number of principals with a stored context.
const MAX_PRINCIPALS: usize = 1024;

/// The contexts of listings, by principal. A toolset caches its lists by the identity of the state
/// in the context, so a principal has the same state in each request.
#[derive(Default)]
pub(super) struct ListContexts(Mutex<HashMap<Principal, HostState>>);

impl ListContexts {
    /// Returns the context of a listing for `principal`. Its state contains the principal.
    pub(super) fn get(&self, principal: Option<&Principal>) -> ListContext {
        let Some(principal) = principal else { return ListContext::default() };
        let mut states = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let state = match states.get(principal) {
            Some(state) => state.clone(),
            None => {
                if states.len() >= MAX_PRINCIPALS {
                    states.clear();
                }
                let state = HostState::new().with_value(principal.clone());
                states.insert(principal.clone(), state.clone());
                state
            }
        };
        ListContext { state, ..ListContext::default() }
    }
}
