use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;

use crate::{ListContext, SourceError, ToolList, ToolName, ToolSource, recent::Recent};

/// Some of a source's tools, by name.
pub(super) struct Selected {
    of: Arc<dyn ToolSource>,
    selection: Arc<Selection>,
    answers: Mutex<Recent<u64, ToolList>>,
}

/// Names, and whether they are those to keep or those to leave out.
pub(super) struct Selection {
    pub(super) names: BTreeSet<ToolName>,
    pub(super) keep: bool,
}

impl Selection {
    pub(super) fn has(&self, name: &ToolName) -> bool {
        self.names.contains(name) == self.keep
    }
}

impl Selected {
    pub(super) fn new(of: Arc<dyn ToolSource>, selection: Arc<Selection>) -> Self {
        Self { of, selection, answers: Mutex::default() }
    }

    fn select(&self, all: &ToolList) -> ToolList {
        let selected = all.tools().iter().filter(|tool| self.selection.has(tool.definition().name()));
        let selected = selected.map(|tool| (self.label(), Arc::clone(tool)));
        ToolList::gather(selected, all.diagnostics().to_vec())
    }
}

#[async_trait]
impl ToolSource for Selected {
    fn label(&self) -> &str {
        self.of.label()
    }

    async fn tools(&self, cx: &ListContext) -> Result<ToolList, SourceError> {
        let all = self.of.tools(cx).await?;
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(answers.get_or_insert_with(all.id(), |_| self.select(&all)).clone())
    }
}
