use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use super::{Diagnostic, ListContext, SourceError, ToolList, ToolSource};
use crate::recent::Recent;

/// Two sources as one, as [`ToolSourceExt::combined`](crate::ToolSourceExt::combined) makes it.
pub struct Combined<A, B> {
    sources: (A, B),
    label: String,
    answers: Mutex<Recent<[Result<u64, String>; 2], ToolList>>,
}

impl<A: ToolSource, B: ToolSource> Combined<A, B> {
    pub(super) fn new(one: A, other: B) -> Self {
        let label = format!("{}+{}", one.label(), other.label());
        Self { sources: (one, other), label, answers: Mutex::default() }
    }

    fn list(&self, listings: [&Result<ToolList, SourceError>; 2]) -> ToolList {
        let labels = [self.sources.0.label(), self.sources.1.label()];
        let mut tools = Vec::new();
        let mut diagnostics = Vec::new();
        for (label, listing) in labels.into_iter().zip(listings) {
            match listing {
                Ok(list) => {
                    diagnostics.extend_from_slice(list.diagnostics());
                    tools.extend(list.tools().iter().map(|tool| (label, Arc::clone(tool))));
                }
                Err(error) => diagnostics.push(Diagnostic::SourceFailed {
                    source_label: label.to_owned(),
                    reason: error.reason.clone(),
                }),
            }
        }
        ToolList::gather(tools, diagnostics)
    }
}

#[async_trait]
impl<A: ToolSource, B: ToolSource> ToolSource for Combined<A, B> {
    fn label(&self) -> &str {
        &self.label
    }

    async fn tools(&self, cx: &ListContext) -> Result<ToolList, SourceError> {
        let (one, other) = futures::join!(self.sources.0.tools(cx), self.sources.1.tools(cx));
        if let (Err(one), Err(other)) = (&one, &other) {
            let reason = format!("{}; {}: {}", one.reason, other.label, other.reason);
            return Err(SourceError::new(self.label(), reason));
        }
        let listings = [&one, &other];
        let key = listings.map(|it| it.as_ref().map(ToolList::id).map_err(|error| error.reason.clone()));
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(answers.get_or_insert_with(key, |_| self.list(listings)).clone())
    }
}
