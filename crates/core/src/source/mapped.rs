use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use super::{ListContext, SourceError, ToolList, ToolSource, remembered::Remembered};
use crate::{Tool, ToolContext, ToolDefinition, ToolError, ToolOutcome, ToolOutput};

/// A source whose tools' results are changed, as [`ToolSourceExt::mapped`](crate::ToolSourceExt::mapped) makes it.
pub struct Mapped<S, F> {
    source: S,
    map: Arc<F>,
    answers: Remembered,
}

impl<S, F> Mapped<S, F>
where
    S: ToolSource,
    F: Fn(&ToolDefinition, ToolOutput) -> Result<ToolOutput, ToolError> + Send + Sync + 'static,
{
    pub(super) fn new(source: S, map: F) -> Self {
        Self { source, map: Arc::new(map), answers: Remembered::default() }
    }
}

#[async_trait]
impl<S, F> ToolSource for Mapped<S, F>
where
    S: ToolSource,
    F: Fn(&ToolDefinition, ToolOutput) -> Result<ToolOutput, ToolError> + Send + Sync + 'static,
{
    fn label(&self) -> &str {
        self.source.label()
    }

    async fn tools(&self, cx: &ListContext) -> Result<ToolList, SourceError> {
        let all = self.source.tools(cx).await?;
        Ok(self.answers.each(self.label(), &all, |tool| {
            Some(Arc::new(Changed { tool: Arc::clone(tool), map: Arc::clone(&self.map) }))
        }))
    }
}

/// A tool whose result is changed.
struct Changed<F> {
    tool: Arc<dyn Tool>,
    map: Arc<F>,
}

#[async_trait]
impl<F> Tool for Changed<F>
where
    F: Fn(&ToolDefinition, ToolOutput) -> Result<ToolOutput, ToolError> + Send + Sync,
{
    fn definition(&self) -> &ToolDefinition {
        self.tool.definition()
    }

    async fn call(&self, arguments: Value, cx: &ToolContext) -> Result<ToolOutcome, ToolError> {
        match self.tool.call(arguments, cx).await? {
            ToolOutcome::Done(output) => (self.map)(self.definition(), output).map(ToolOutcome::Done),
            pending => Ok(pending),
        }
    }
}
