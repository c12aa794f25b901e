use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use super::{ListContext, SourceError, ToolList, ToolSource};
use crate::{Tool, recent::Recent};

/// A source whose tools are other ones than those of the source in it, as the methods of
/// [`ToolSourceExt`](crate::ToolSourceExt) make it. An inner snapshot that did not change gives the same again.
pub struct Adapted<S, A> {
    source: S,
    adaptor: A,
    answers: Mutex<Recent<u64, ToolList>>,
}

/// What becomes of the tools of a source.
pub trait Adaptor: Send + Sync {
    /// Holds a snapshot of the source against what is asked of it.
    ///
    /// # Errors
    ///
    /// Fails with the reason why there are no tools then.
    fn check(&self, _all: &ToolList) -> Result<(), String> {
        Ok(())
    }

    /// What is offered in the place of a tool, if anything.
    fn adapt(&self, tool: &Arc<dyn Tool>) -> Option<Arc<dyn Tool>>;
}

impl<S, A> Adapted<S, A> {
    pub(super) fn new(source: S, adaptor: A) -> Self {
        Self { source, adaptor, answers: Mutex::default() }
    }
}

#[async_trait]
impl<S: ToolSource, A: Adaptor> ToolSource for Adapted<S, A> {
    fn label(&self) -> &str {
        self.source.label()
    }

    async fn tools(&self, cx: &ListContext) -> Result<ToolList, SourceError> {
        let all = self.source.tools(cx).await?;
        self.adaptor.check(&all).map_err(|reason| SourceError::new(self.label(), reason))?;
        let adapt = |_: &u64| {
            let tools = all.tools().iter().filter_map(|tool| Some((self.label(), self.adaptor.adapt(tool)?)));
            ToolList::gather(tools, all.diagnostics().to_vec())
        };
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(answers.get_or_insert_with(all.id(), adapt).clone())
    }
}
