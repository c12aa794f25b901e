//! The runs that this process drives, and their new events.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::{StreamExt as _, stream::BoxStream};
use haft_core::RunEvent;
use haft_session::{SessionKey, SessionStore};
use serde_json::Value;
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;

use crate::stored::Sent;

/// The time for which events are collected before they are stored together.
const BATCH_TIME: Duration = Duration::from_millis(40);

/// The maximum number of events that are stored together.
const BATCH_EVENTS: usize = 64;

/// A run that this process drives.
#[derive(Clone)]
pub(crate) struct LiveRun {
    pub(crate) inbox: mpsc::Sender<Sent>,
    pub(crate) cancellation: CancellationToken,
    /// Cancelled after the run has ended or waits, and this is stored.
    pub(crate) ended: CancellationToken,
    /// Cancelled when the client has left that the run depends on.
    pub(crate) left: CancellationToken,
}

/// The runs that this process drives, and the numbers of the last events of their sessions.
#[derive(Default)]
pub(crate) struct LiveRuns {
    runs: Mutex<HashMap<(String, String), LiveRun>>,
    numbers: Mutex<HashMap<SessionKey, watch::Sender<u64>>>,
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

    /// Returns the sender of the number of the last event of a session.
    pub(crate) fn numbers(&self, key: &SessionKey) -> watch::Sender<u64> {
        let mut numbers = lock(&self.numbers);
        // Sessions without a reader and a driver are forgotten.
        numbers
            .retain(|known, sender| known == key || sender.receiver_count() > 0 || sender.sender_count() > 1);
        numbers.entry(key.clone()).or_insert_with(|| watch::Sender::new(0)).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Stores the events of a run in batches, and reports the number of the last one to `numbers`.
/// Consecutive deltas of a batch are one event.
pub(crate) async fn write_events(
    store: Arc<dyn SessionStore>,
    key: SessionKey,
    run: String,
    mut events: BoxStream<'static, RunEvent>,
    numbers: watch::Sender<u64>,
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
        match store.append_events(&key, &run, batch).await {
            Ok(number) => drop(numbers.send_replace(number)),
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
