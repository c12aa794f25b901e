use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;

use super::{OWN, Toolset};
use crate::{ListContext, SourceError, ToolList, ToolName, ToolSource};

/// Some tools of a toolset, by name.
pub(super) struct Selected {
    of: Toolset,
    names: BTreeSet<ToolName>,
    /// Whether `names` are those to keep, or those to leave out.
    keep: bool,
    /// The last answer, and the id of the snapshot that it was made of.
    last: Mutex<Option<(u64, ToolList)>>,
}

impl Selected {
    pub(super) fn new(of: Toolset, names: BTreeSet<ToolName>, keep: bool) -> Self {
        Self { of, names, keep, last: Mutex::default() }
    }
}

#[async_trait]
impl ToolSource for Selected {
    fn label(&self) -> &str {
        OWN
    }

    async fn tools(&self, cx: &ListContext) -> Result<ToolList, SourceError> {
        let all = self.of.list(cx).await;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, list)) = &*last
            && *of == all.id()
        {
            return Ok(list.clone());
        }
        let selected =
            all.tools().iter().filter(|tool| self.names.contains(tool.definition().name()) == self.keep);
        let list = ToolList::gather(selected.map(|tool| (OWN, Arc::clone(tool))), all.diagnostics().to_vec());
        *last = Some((all.id(), list.clone()));
        Ok(list)
    }
}
