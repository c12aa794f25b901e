use std::{collections::BTreeSet, sync::Arc};

use async_trait::async_trait;

use crate::{ListContext, SourceError, ToolList, ToolName, ToolSource, source::Remembered};

/// Some of a source's tools, by name.
pub(super) struct Selected {
    of: Arc<dyn ToolSource>,
    selection: Arc<Selection>,
    answers: Remembered,
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
        Self { of, selection, answers: Remembered::default() }
    }
}

#[async_trait]
impl ToolSource for Selected {
    fn label(&self) -> &str {
        self.of.label()
    }

    async fn tools(&self, cx: &ListContext) -> Result<ToolList, SourceError> {
        let all = self.of.tools(cx).await?;
        let selection = &self.selection;
        Ok(self.answers.each(self.label(), &all, |tool| {
            selection.has(tool.definition().name()).then(|| Arc::clone(tool))
        }))
    }
}
