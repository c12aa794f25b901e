use std::sync::{Arc, Mutex, PoisonError};

use super::ToolList;
use crate::{Tool, recent::Recent};

/// What an adaptor made of the latest snapshots: an inner one that did not change gives the same again.
#[derive(Default)]
pub(crate) struct Remembered(Mutex<Recent<u64, ToolList>>);

impl Remembered {
    /// The snapshot with what becomes of each tool, or without it.
    pub(crate) fn each(
        &self,
        label: &str,
        all: &ToolList,
        adapt: impl Fn(&Arc<dyn Tool>) -> Option<Arc<dyn Tool>>,
    ) -> ToolList {
        let make = |_: &u64| {
            let adapted = all.tools().iter().filter_map(|tool| Some((label, adapt(tool)?)));
            ToolList::gather(adapted, all.diagnostics().to_vec())
        };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(all.id(), make).clone()
    }
}
