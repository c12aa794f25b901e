//! Tool sources whose listings have a time limit.

use std::{
    any::Any,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use futures::{FutureExt as _, future::BoxFuture};
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

use super::{ListContext, SourceError, ToolSource, merge::Listing};
use crate::{
    limits,
    pipeline::{
        ToolList,
        deadline::{self, WaitError},
    },
    small_lru::SmallLru,
};

/// The time after which a listing stops waiting for a source and uses the previous snapshot.
const FOREGROUND_TIMEOUT: Duration = Duration::from_secs(1);

/// The maximum number of callers with a stored listing. The listing of the least recently active
/// caller is dropped first, and its background task is aborted.
const MAX_CALLERS: usize = 256;

/// The reason for a failed listing of a source that waits, without a tokio timer.
const NO_TIMER: &str = "a listing that waits needs a tokio timer";

/// A tool source whose listings have a time limit.
///
/// A slow listing continues in the background, and a later listing uses its result.
pub(super) struct BackgroundSource {
    source: Arc<dyn ToolSource>,
    callers: Mutex<SmallLru<Caller, CallerListing, MAX_CALLERS>>,
}

/// The key under which the most recent listing of a source is stored: the run and the host state of
/// a [`ListContext`]. A source may return different tools for each combination. The reference is
/// weak, so that the values of a finished run are dropped.
struct Caller {
    run_id: String,
    state: Weak<dyn Any + Send + Sync>,
}

impl PartialEq for Caller {
    fn eq(&self, other: &Self) -> bool {
        self.run_id == other.run_id && self.state.ptr_eq(&other.state)
    }
}

/// The most recent listing for one caller.
#[derive(Default)]
struct CallerListing {
    /// The snapshot of the most recent successful listing. `None` if no listing has succeeded yet.
    list: Option<ToolList>,
    /// The background task of a slow listing, if any.
    task: Option<AbortOnDropHandle<Listing>>,
}

impl BackgroundSource {
    pub(super) fn new(source: Arc<dyn ToolSource>) -> Self {
        Self { source, callers: Mutex::default() }
    }

    pub(super) fn label(&self) -> &str {
        self.source.label()
    }

    /// Lists the tools of the source. If the listing takes longer than [`FOREGROUND_TIMEOUT`],
    /// returns the previous snapshot for this caller, or an error if there is none.
    pub(super) async fn list(&self, cx: &ListContext) -> Listing {
        let known_id = |caller: &CallerListing| caller.list.as_ref().map(ToolList::snapshot_id);
        let (task, known_id) = self.update(cx, |caller| (caller.task.take(), known_id(caller)));
        let listing = match task {
            Some(task) if task.is_finished() => {
                task.await.unwrap_or_else(|_panic| Err(panic_error(self.label())))
            }
            Some(task) => return self.continue_in_background(cx, task),
            None => {
                let mut listing = list_source(Arc::clone(&self.source), cx.clone()).boxed();
                match (listing.as_mut().now_or_never(), Handle::try_current()) {
                    (Some(listing), _) => listing,
                    (None, Err(_no_runtime)) => Err(SourceError::new(self.label(), NO_TIMER)),
                    (None, Ok(runtime)) => {
                        let listing = with_timeout(Arc::clone(&self.source), listing).in_current_span();
                        let mut task = AbortOnDropHandle::new(runtime.spawn(listing));
                        match deadline::timeout(FOREGROUND_TIMEOUT, &mut task).await {
                            Ok(listing) => listing.unwrap_or_else(|_panic| Err(panic_error(self.label()))),
                            Err(WaitError::NoTimer) => Err(SourceError::new(self.label(), NO_TIMER)),
                            Err(_elapsed) => return self.continue_in_background(cx, task),
                        }
                    }
                }
            }
        };
        if let Ok(list) = &listing
            && known_id != Some(list.snapshot_id())
        {
            self.update(cx, |caller| caller.list = Some(list.clone()));
        }
        listing
    }

    /// Stores `task`, so that the listing continues in the background. Returns the previous
    /// snapshot for this caller, or an error if there is none.
    fn continue_in_background(&self, cx: &ListContext, task: AbortOnDropHandle<Listing>) -> Listing {
        let list = self.update(cx, |caller| {
            caller.task = Some(task);
            caller.list.clone()
        });
        let reason =
            format!("no listing within {} s; it continues in the background", FOREGROUND_TIMEOUT.as_secs());
        list.ok_or_else(|| SourceError::new(self.label(), reason))
    }

    fn update<T>(&self, cx: &ListContext, change: impl FnOnce(&mut CallerListing) -> T) -> T {
        let caller = Caller { run_id: cx.run_id.clone(), state: cx.state.downgrade() };
        let mut callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        change(callers.get_or_insert_with(caller, |_| CallerListing::default()))
    }
}

/// Lists the tools of `source`. Fails if the source fails or panics.
async fn list_source(source: Arc<dyn ToolSource>, cx: ListContext) -> Listing {
    let tools = AssertUnwindSafe(source.tools(&cx)).catch_unwind().await;
    tools.unwrap_or_else(|_panic| Err(panic_error(source.label())))
}

/// Waits for `listing`, a listing of `source`. Fails if it takes longer than
/// [`limits::TOOL_LIST_TIMEOUT`], or if there is no tokio timer.
async fn with_timeout(source: Arc<dyn ToolSource>, listing: BoxFuture<'static, Listing>) -> Listing {
    let reason = match deadline::timeout(limits::TOOL_LIST_TIMEOUT, listing).await {
        Ok(listing) => return listing,
        Err(WaitError::NoTimer) => NO_TIMER.to_owned(),
        Err(_elapsed) => {
            format!("it did not list its tools within {} s", limits::TOOL_LIST_TIMEOUT.as_secs())
        }
    };
    Err(SourceError::new(source.label(), reason))
}

pub(super) fn panic_error(label: &str) -> SourceError {
    SourceError::new(label, "it panicked while it listed its tools")
}
