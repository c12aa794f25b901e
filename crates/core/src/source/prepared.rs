use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use super::{ListContext, SourceError, ToolList, ToolSource};
use crate::{Redefined, Tool, ToolDefinition, recent::Recent};

/// A source whose tools are changed or hidden from step to step, as
/// [`ToolSourceExt::prepared`](crate::ToolSourceExt::prepared) makes it.
pub struct Prepared<S, F> {
    source: S,
    prepare: F,
    answers: Mutex<Recent<Answer, ToolList>>,
}

/// A snapshot of the source, and what became of each of its definitions.
type Answer = (u64, Vec<Option<ToolDefinition>>);

impl<S, F> Prepared<S, F>
where
    S: ToolSource,
    F: Fn(ToolDefinition, &ListContext) -> Option<ToolDefinition> + Send + Sync,
{
    pub(super) fn new(source: S, prepare: F) -> Self {
        Self { source, prepare, answers: Mutex::default() }
    }

    fn list(&self, all: &ToolList, prepared: &[Option<ToolDefinition>]) -> ToolList {
        let kept = all.tools().iter().zip(prepared).filter_map(|(tool, prepared)| {
            let prepared = prepared.as_ref()?;
            let tool: Arc<dyn Tool> = if tool.definition() == prepared {
                Arc::clone(tool)
            } else {
                Arc::new(Redefined::new(Arc::clone(tool), prepared.clone()))
            };
            Some((self.label(), tool))
        });
        ToolList::gather(kept, all.diagnostics().to_vec())
    }
}

#[async_trait]
impl<S, F> ToolSource for Prepared<S, F>
where
    S: ToolSource,
    F: Fn(ToolDefinition, &ListContext) -> Option<ToolDefinition> + Send + Sync,
{
    fn label(&self) -> &str {
        self.source.label()
    }

    async fn tools(&self, cx: &ListContext) -> Result<ToolList, SourceError> {
        let all = self.source.tools(cx).await?;
        let prepared: Vec<_> =
            all.tools().iter().map(|tool| (self.prepare)(tool.definition().clone(), cx)).collect();
        if all
            .tools()
            .iter()
            .zip(&prepared)
            .all(|(tool, prepared)| prepared.as_ref() == Some(tool.definition()))
        {
            return Ok(all);
        }
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let make = |(_, prepared): &Answer| self.list(&all, prepared);
        Ok(answers.get_or_insert_with((all.id(), prepared), make).clone())
    }
}
