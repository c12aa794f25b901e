//! The runs that this process drives, and their new events.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::{StreamExt as _, stream::BoxStream};
use haft_core::RunEvent;
use haft_session::{SessionKey, SessionStore};
use serde_json::Value;
use tokio::{
    sync::{Mutex as AsyncMutex, OwnedMutexGuard, mpsc, watch},
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;

use crate::{
    sse::{is_last, sse_data},
    stored::InboxMessage,
};

/// The time for which events are collected before they are stored together.
const BATCH_TIME: Duration = Duration::from_millis(40);

/// The maximum number of events that are stored together.
const BATCH_EVENTS: usize = 64;

/// The bounds of the events of a session in memory: their number and their size in bytes.
const FEED_EVENTS: usize = 512;
const FEED_BYTES: usize = 1024 * 1024;

/// A run that this process drives.
#[derive(Clone)]
pub(crate) struct LiveRun {
    pub(crate) inbox: mpsc::Sender<InboxMessage>,
    pub(crate) cancellation: CancellationToken,
    /// Cancelled after the run has ended or waits, and this is stored.
    pub(crate) ended: CancellationToken,
    /// Cancelled when the client has left that the run depends on.
    pub(crate) client_gone: CancellationToken,
}

/// A tenant and the id of a run.
type RunId = (String, String);

/// The runs that this process drives, and the latest events of their sessions.
#[derive(Default)]
pub(crate) struct LiveRuns {
    runs: Mutex<HashMap<RunId, LiveRun>>,
    turns: Mutex<HashMap<RunId, Arc<AsyncMutex<()>>>>,
    feeds: Mutex<HashMap<SessionKey, Feed>>,
    closing: CancellationToken,
}

impl LiveRuns {
    pub(crate) fn insert(&self, tenant: &str, run: &str, live: LiveRun) {
        lock(&self.runs).insert((tenant.to_owned(), run.to_owned()), live);
    }

    /// Removes `live`, unless the run has been continued by another driver of this process.
    pub(crate) fn remove(&self, tenant: &str, run: &str, live: &LiveRun) {
        let mut runs = lock(&self.runs);
        let key = (tenant.to_owned(), run.to_owned());
        if runs.get(&key).is_some_and(|known| known.inbox.same_channel(&live.inbox)) {
            runs.remove(&key);
        }
    }

    pub(crate) fn get(&self, tenant: &str, run: &str) -> Option<LiveRun> {
        lock(&self.runs).get(&(tenant.to_owned(), run.to_owned())).cloned()
    }

    /// Waits for the turn to acquire a run, in the order of the calls. Two tasks of one process do not
    /// compete for its lease.
    pub(crate) async fn turn(&self, tenant: &str, run: &str) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = lock(&self.turns);
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            Arc::clone(turns.entry((tenant.to_owned(), run.to_owned())).or_default())
        };
        turn.lock_owned().await
    }

    /// Returns the latest events of a session.
    pub(crate) fn feed(&self, key: &SessionKey) -> Feed {
        let mut feeds = lock(&self.feeds);
        // Sessions without a reader and a driver are forgotten.
        feeds.retain(|_, feed| Arc::strong_count(&feed.0) > 1);
        feeds.entry(key.clone()).or_default().clone()
    }

    /// Forgets the events of a deleted session.
    pub(crate) fn forget(&self, key: &SessionKey) {
        lock(&self.feeds).remove(key);
    }

    /// Ends the streams of events.
    pub(crate) fn close(&self) {
        self.closing.cancel();
    }

    /// Cancelled when the streams of events end.
    pub(crate) fn closing(&self) -> &CancellationToken {
        &self.closing
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The latest events of a session, so that each of many readers does not read them from the store.
#[derive(Clone, Default)]
pub(crate) struct Feed(Arc<FeedState>);

#[derive(Default)]
struct FeedState {
    events: Mutex<Events>,
    /// The number of the last event.
    last: watch::Sender<u64>,
}

#[derive(Default)]
struct Events {
    latest: VecDeque<FeedEvent>,
    bytes: usize,
}

/// An event in memory.
#[derive(Clone)]
pub(crate) struct FeedEvent {
    pub(crate) number: u64,
    pub(crate) run: Arc<str>,
    pub(crate) data: Arc<str>,
    pub(crate) is_last: bool,
}

impl FeedEvent {
    pub(crate) fn new(number: u64, run: &str, event: &Value) -> Self {
        Self { number, run: run.into(), data: sse_data(run, event).into(), is_last: is_last(event) }
    }
}

impl Feed {
    /// Adds stored events, of which the last one has the number `last`.
    pub(crate) fn push(&self, last: u64, run: &str, events: &[Value]) {
        let first = (last + 1).saturating_sub(events.len() as u64);
        let mut state = lock(&self.0.events);
        for (number, event) in (first..).zip(events) {
            // Another process has written in between.
            if state.latest.back().is_some_and(|back| back.number + 1 != number) {
                *state = Events::default();
            }
            let event = FeedEvent::new(number, run, event);
            state.bytes += event.data.len();
            state.latest.push_back(event);
            while state.latest.len() > FEED_EVENTS || state.bytes > FEED_BYTES {
                let Some(oldest) = state.latest.pop_front() else { break };
                state.bytes -= oldest.data.len();
            }
        }
        drop(state);
        self.0.last.send_replace(last);
    }

    /// Returns the events after the number `after`. `None` if they are not in memory.
    pub(crate) fn events_after(&self, after: u64) -> Option<Vec<FeedEvent>> {
        let state = lock(&self.0.events);
        let next = after.checked_add(1)?;
        let first = state.latest.front().filter(|first| first.number <= next)?.number;
        let skipped = usize::try_from(next - first).ok()?;
        Some(state.latest.iter().skip(skipped).cloned().collect::<Vec<_>>()).filter(|it| !it.is_empty())
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.0.last.subscribe()
    }

    pub(crate) fn has_readers(&self) -> bool {
        self.0.last.receiver_count() > 0
    }
}

/// Stores the events of a run in batches, and adds them to `feed`. Consecutive deltas of a batch are
/// one event.
pub(crate) async fn write_events(
    store: Arc<dyn SessionStore>,
    key: SessionKey,
    run: String,
    mut events: BoxStream<'static, RunEvent>,
    feed: Feed,
) {
    while let Some(first) = events.next().await {
        let mut batch = Vec::new();
        push(&mut batch, &first);
        let deadline = Instant::now() + BATCH_TIME;
        while batch.len() < BATCH_EVENTS
            && let Ok(Some(event)) = timeout_at(deadline, events.next()).await
        {
            push(&mut batch, &event);
        }
        match store.append_events(&key, &run, batch.clone()).await {
            Ok(number) => feed.push(number, &run, &batch),
            Err(error) => tracing::error!(run, %error, "events cannot be stored"),
        }
    }
}

/// Adds `event` to `batch`. A delta is appended to a delta of the same kind and call.
fn push(batch: &mut Vec<Value>, event: &RunEvent) {
    let Ok(event) = serde_json::to_value(event) else { return };
    let is_joined = batch.last_mut().is_some_and(|last| join(last, &event));
    if !is_joined {
        batch.push(event);
    }
}

/// Appends the text of the delta `event` to the delta `last`. Returns `false` if they are no deltas
/// of the same kind and call.
fn join(last: &mut Value, event: &Value) -> bool {
    if last["type"] != event["type"] || last["call_id"] != event["call_id"] {
        return false;
    }
    let text = match event["type"].as_str() {
        Some("text_delta" | "reasoning_delta") => "text",
        Some("arguments_delta") => "arguments",
        Some("nested") => return join(&mut last["event"], &event["event"]),
        _ => return false,
    };
    let (Value::String(last), Some(new)) = (&mut last[text], event[text].as_str()) else { return false };
    last.push_str(new);
    true
}
