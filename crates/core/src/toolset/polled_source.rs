//! Listing of sources with a time limit.

use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::FutureExt as _;
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

use super::{ListContext, SourceError, ToolSource, merge::Listing};
use crate::{
    limits,
    pipeline::{ToolList, deadline},
    tool::State,
};

/// The time that one listing waits for a source.
const PATIENCE: Duration = Duration::from_secs(1);

/// A source whose slow listing is continued in the background; its result is used by a later listing.
pub(super) struct PolledSource {
    source: Arc<dyn ToolSource>,
    memory: Mutex<Option<Memory>>,
}

/// The state of the latest caller. Listings depend on the caller.
struct Memory {
    run_id: String,
    state: State,
    list: Option<ToolList>,
    /// A listing in progress.
    overdue: Option<AbortOnDropHandle<Listing>>,
}

impl PolledSource {
    pub(super) fn new(source: Arc<dyn ToolSource>) -> Self {
        Self { source, memory: Mutex::new(None) }
    }

    pub(super) fn label(&self) -> &str {
        self.source.label()
    }

    /// Lists the source. If it takes too long, returns its latest snapshot.
    pub(super) async fn list(&self, cx: &ListContext) -> Listing {
        let listing = match self.overdue(cx) {
            Some(overdue) if overdue.is_finished() => joined(overdue, self.label()).await,
            Some(overdue) => return self.put_off(cx, overdue),
            None => {
                let mut listing = listing(Arc::clone(&self.source), cx.clone()).boxed();
                match (listing.as_mut().now_or_never(), Handle::try_current()) {
                    (Some(listing), _) => listing,
                    (None, Err(_no_runtime)) => listing.await,
                    (None, Ok(runtime)) => {
                        let mut task = AbortOnDropHandle::new(runtime.spawn(listing.in_current_span()));
                        match deadline::timeout(PATIENCE, &mut task).await {
                            Ok(listing) => listing.unwrap_or_else(|_panic| Err(panicked(self.label()))),
                            Err(_elapsed) => return self.put_off(cx, task),
                        }
                    }
                }
            }
        };
        if let Ok(list) = &listing {
            self.remember(cx, |memory| memory.list = Some(list.clone()));
        }
        listing
    }

    /// Takes the listing for this caller that is under way, if there is one.
    fn overdue(&self, cx: &ListContext) -> Option<AbortOnDropHandle<Listing>> {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.as_mut().filter(|memory| memory.is_of(cx))?.overdue.take()
    }

    fn put_off(&self, cx: &ListContext, task: AbortOnDropHandle<Listing>) -> Listing {
        let last = self.remember(cx, |memory| {
            memory.overdue = Some(task);
            memory.list.clone()
        });
        let reason =
            format!("it has not listed its tools within {} s, and is still asked", PATIENCE.as_secs());
        last.ok_or_else(|| SourceError::new(self.label(), reason))
    }

    fn remember<T>(&self, cx: &ListContext, note: impl FnOnce(&mut Memory) -> T) -> T {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        match memory.as_mut().filter(|memory| memory.is_of(cx)) {
            Some(memory) => note(memory),
            None => note(memory.insert(Memory {
                run_id: cx.run_id.clone(),
                state: cx.state.clone(),
                list: None,
                overdue: None,
            })),
        }
    }
}

impl Memory {
    fn is_of(&self, cx: &ListContext) -> bool {
        self.run_id == cx.run_id && self.state.is_same(&cx.state)
    }
}

/// Lists a source. A timeout and a panic are errors.
async fn listing(source: Arc<dyn ToolSource>, cx: ListContext) -> Listing {
    let tools = AssertUnwindSafe(source.tools(&cx)).catch_unwind();
    match deadline::timeout(limits::LIST_TIMEOUT, tools).await {
        Ok(Ok(listing)) => listing,
        Ok(Err(_panic)) => Err(panicked(source.label())),
        Err(_ended) => {
            let reason = format!("it did not list its tools within {} s", limits::LIST_TIMEOUT.as_secs());
            Err(SourceError::new(source.label(), reason))
        }
    }
}

async fn joined(task: AbortOnDropHandle<Listing>, label: &str) -> Listing {
    task.await.unwrap_or_else(|_panic| Err(panicked(label)))
}

pub(super) fn panicked(label: &str) -> SourceError {
    SourceError::new(label, "it panicked while it listed its tools")
}
