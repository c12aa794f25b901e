use std::sync::Arc;

use async_trait::async_trait;

use super::{ListContext, SourceError, ToolList, ToolSource, remembered::Remembered};
use crate::{Policy, Redefined, ToolDefinition};

/// A source of which some tools wait for a person's permission, as
/// [`ToolSourceExt::approval_required`](crate::ToolSourceExt::approval_required) makes it.
pub struct ApprovalRequired<S, F> {
    source: S,
    which: F,
    answers: Remembered,
}

impl<S, F> ApprovalRequired<S, F>
where
    S: ToolSource,
    F: Fn(&ToolDefinition) -> bool + Send + Sync,
{
    pub(super) fn new(source: S, which: F) -> Self {
        Self { source, which, answers: Remembered::default() }
    }
}

#[async_trait]
impl<S, F> ToolSource for ApprovalRequired<S, F>
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
            let definition = tool.definition();
            if !(self.which)(definition) {
                return Some(Arc::clone(tool));
            }
            let policy = Policy { requires_approval: true, ..definition.policy().clone() };
            Some(Arc::new(Redefined::new(Arc::clone(tool), definition.clone().with_policy(policy))))
        }))
    }
}
