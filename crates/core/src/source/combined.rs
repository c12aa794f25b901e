use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use super::{Diagnostic, ListContext, SourceError, ToolList, ToolSource};
use crate::{recent::Recent, toolset::Asked};

/// Two sources as one, as [`ToolSourceExt::combined`](crate::ToolSourceExt::combined) makes it.
pub struct Combined {
    sources: [Asked; 2],
    label: String,
    answers: Mutex<Recent<[Result<u64, String>; 2], ToolList>>,
}

impl Combined {
    pub(super) fn new(one: impl ToolSource + 'static, other: impl ToolSource + 'static) -> Self {
        let label = format!("{}+{}", one.label(), other.label());
        let sources = [Asked::new(Arc::new(one)), Asked::new(Arc::new(other))];
        Self { sources, label, answers: Mutex::default() }
    }

    fn list(&self, listings: [&Result<ToolList, SourceError>; 2]) -> ToolList {
        let mut tools = Vec::new();
        let mut diagnostics = Vec::new();
        for (source, listing) in self.sources.iter().zip(listings) {
            match listing {
                Ok(list) => {
                    diagnostics.extend_from_slice(list.diagnostics());
                    tools.extend(list.tools().iter().map(|tool| (source.label(), Arc::clone(tool))));
                }
                Err(error) => diagnostics.push(Diagnostic::SourceFailed {
                    source_label: source.label().to_owned(),
                    reason: error.reason.clone(),
                }),
            }
        }
        ToolList::gather(tools, diagnostics)
    }
}

#[async_trait]
impl ToolSource for Combined {
    fn label(&self) -> &str {
        &self.label
    }

    async fn tools(&self, cx: &ListContext) -> Result<ToolList, SourceError> {
        let [one, other] = &self.sources;
        let (one, other) = futures::join!(one.list(cx), other.list(cx));
        if let (Err(one), Err(other)) = (&one, &other) {
            let reason = format!("{}: {}; {}: {}", one.label, one.reason, other.label, other.reason);
            return Err(SourceError::new(self.label(), reason));
        }
        let listings = [&one, &other];
        let key = listings.map(|it| it.as_ref().map(ToolList::id).map_err(|error| error.reason.clone()));
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(answers.get_or_insert_with(key, |_| self.list(listings)).clone())
    }
}
