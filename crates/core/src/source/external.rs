use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use super::{ListContext, SourceError, ToolList, ToolSource, remembered::Remembered};
use crate::{Pending, PendingKind, Tool, ToolContext, ToolDefinition, ToolError, ToolOutcome};

/// A source of which some tools are the host's to run, as [`ToolSourceExt::external`](crate::ToolSourceExt::external) makes it.
pub struct External<S, F> {
    source: S,
    which: F,
    answers: Remembered,
}

impl<S, F> External<S, F>
where
    S: ToolSource,
    F: Fn(&ToolDefinition) -> bool + Send + Sync,
{
    pub(super) fn new(source: S, which: F) -> Self {
        Self { source, which, answers: Remembered::default() }
    }
}

#[async_trait]
impl<S, F> ToolSource for External<S, F>
where
    S: ToolSource,
    F: Fn(&ToolDefinition) -> bool + Send + Sync,
{
    fn label(&self) -> &str {
        self.source.label()
    }

    async fn tools(&self, cx: &ListContext) -> Result<ToolList, SourceError> {
        let all = self.source.tools(cx).await?;
        Ok(self.answers.each(self.label(), &all, |tool| {
            let is_external = (self.which)(tool.definition());
            Some(if is_external { Arc::new(Elsewhere(Arc::clone(tool))) } else { Arc::clone(tool) })
        }))
    }
}

/// A tool that somebody else runs.
struct Elsewhere(Arc<dyn Tool>);

#[async_trait]
impl Tool for Elsewhere {
    fn definition(&self) -> &ToolDefinition {
        self.0.definition()
    }

    async fn call(&self, _arguments: Value, _cx: &ToolContext) -> Result<ToolOutcome, ToolError> {
        Ok(ToolOutcome::Pending(Pending::new(PendingKind::External)))
    }
}
