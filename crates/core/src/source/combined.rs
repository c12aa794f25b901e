use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use super::{ListContext, SourceError, ToolList, ToolSource};
use crate::{
    recent::Recent,
    toolset::{Asked, Identity, gather, identity},
};

/// Two sources as one, as [`ToolSourceExt::combined`](crate::ToolSourceExt::combined) makes it.
pub struct Combined {
    sources: [Asked; 2],
    label: String,
    answers: Mutex<Recent<Identity, ToolList>>,
}

impl Combined {
    pub(super) fn new(one: impl ToolSource + 'static, other: impl ToolSource + 'static) -> Self {
        let label = format!("{}+{}", one.label(), other.label());
        let sources = [Asked::new(Arc::new(one)), Asked::new(Arc::new(other))];
        Self { sources, label, answers: Mutex::default() }
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
        let labels = self.sources.each_ref().map(Asked::label);
        let listings: Vec<_> = labels.into_iter().zip([one, other]).collect();
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let list = answers.get_or_insert_with(identity(&listings), |_| gather(Vec::new(), &listings));
        Ok(list.clone())
    }
}
