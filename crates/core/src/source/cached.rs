use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use tokio::time::Instant;

use super::{ListContext, SourceError, ToolList, ToolSource};

/// A source that is asked now and then, as [`ToolSourceExt::cached`](crate::ToolSourceExt::cached) makes it.
pub struct Cached<S> {
    source: S,
    time_to_live: Duration,
    kept: Mutex<Option<(Instant, ToolList)>>,
}

impl<S: ToolSource> Cached<S> {
    pub(super) fn new(source: S, time_to_live: Duration) -> Self {
        Self { source, time_to_live, kept: Mutex::default() }
    }

    fn kept(&self) -> Option<ToolList> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, list) = kept.as_ref()?;
        (since.elapsed() < self.time_to_live).then(|| list.clone())
    }
}

#[async_trait]
impl<S: ToolSource> ToolSource for Cached<S> {
    fn label(&self) -> &str {
        self.source.label()
    }

    async fn tools(&self, cx: &ListContext) -> Result<ToolList, SourceError> {
        if let Some(kept) = self.kept() {
            return Ok(kept);
        }
        let asked = Instant::now();
        let list = self.source.tools(cx).await?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        // Of two listings at once the later one counts, whichever ends first.
        if kept.as_ref().is_none_or(|(since, _)| *since <= asked) {
            *kept = Some((asked, list.clone()));
        }
        Ok(list)
    }
}
