use std::sync::Arc;

use async_trait::async_trait;

use super::{ListContext, SourceError, ToolList, ToolSource, remembered::Remembered};
use crate::ToolDefinition;

/// A source of which only some tools are shown, as [`ToolSourceExt::filtered`](crate::ToolSourceExt::filtered) makes it.
pub struct Filtered<S, F> {
    source: S,
    keep: F,
    answers: Remembered,
}

impl<S, F> Filtered<S, F>
where
    S: ToolSource,
    F: Fn(&ToolDefinition) -> bool + Send + Sync,
{
    pub(super) fn new(source: S, keep: F) -> Self {
        Self { source, keep, answers: Remembered::default() }
    }
}

#[async_trait]
impl<S, F> ToolSource for Filtered<S, F>
where
    S: ToolSource,
    F: Fn(&ToolDefinition) -> bool + Send + Sync,
{
    fn label(&self) -> &str {
        self.source.label()
    }

    async fn tools(&self, cx: &ListContext) -> Result<ToolList, SourceError> {
        let all = self.source.tools(cx).await?;
        Ok(self
            .answers
            .each(self.label(), &all, |tool| (self.keep)(tool.definition()).then(|| Arc::clone(tool))))
    }
}
