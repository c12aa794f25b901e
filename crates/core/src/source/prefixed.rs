use std::sync::Arc;

use async_trait::async_trait;

use super::{ListContext, SourceError, ToolList, ToolSource, remembered::Remembered};
use crate::{Redefined, ToolName};

/// A source whose tools have a prefix, as [`ToolSourceExt::prefixed`](crate::ToolSourceExt::prefixed) makes it.
pub struct Prefixed<S> {
    source: S,
    prefix: String,
    answers: Remembered,
}

impl<S: ToolSource> Prefixed<S> {
    pub(super) fn new(source: S, prefix: String) -> Self {
        Self { source, prefix, answers: Remembered::default() }
    }
}

#[async_trait]
impl<S: ToolSource> ToolSource for Prefixed<S> {
    fn label(&self) -> &str {
        self.source.label()
    }

    async fn tools(&self, cx: &ListContext) -> Result<ToolList, SourceError> {
        let all = self.source.tools(cx).await?;
        Ok(self.answers.each(self.label(), &all, |tool| {
            let definition = tool.definition();
            let name = ToolName::from_foreign(&format!("{}{}", self.prefix, definition.name()));
            Some(Arc::new(Redefined::new(Arc::clone(tool), definition.clone().with_name(name))))
        }))
    }
}
