//! Streams of events.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    http::HeaderMap,
    response::sse::{Event, KeepAlive, Sse},
};
use futures::{
    StreamExt as _,
    stream::{BoxStream, unfold},
};
use haft_core::{RunOutput, agent::AgentErrorKind};
use haft_session::{SessionKey, SessionStore, StoredEvent};
use serde_json::{Value, json};
use tokio::{sync::watch, time::timeout};

use crate::error::describe;

/// The time after which a comment keeps a silent connection open.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// The time after which events of other processes are looked for.
const POLL: Duration = Duration::from_secs(2);

/// The number of events that are read at once.
const PAGE: u32 = 256;

pub(crate) type Events =
    Sse<axum::response::sse::KeepAliveStream<BoxStream<'static, Result<Event, Infallible>>>>;

pub(crate) fn events(stream: BoxStream<'static, Result<Event, Infallible>>) -> Events {
    Sse::new(stream).keep_alive(KeepAlive::new().interval(HEARTBEAT))
}

/// Returns the number of the last event that the client has: the query parameter `after`, or the
/// header `Last-Event-ID` (HTML, section 9.2.3).
pub(crate) fn last_event(headers: &HeaderMap, after: Option<u64>) -> u64 {
    let header = headers.get("last-event-id").and_then(|value| value.to_str().ok()?.parse().ok());
    header.or(after).unwrap_or(0)
}

/// The reader of the stored events of a session.
struct Reader {
    store: Arc<dyn SessionStore>,
    key: SessionKey,
    run: Option<String>,
    after: u64,
    numbers: watch::Receiver<u64>,
    page: std::vec::IntoIter<StoredEvent>,
    is_over: bool,
}

/// Returns the events of a session after the number `after`, and then the new ones. The events of a
/// `run` end after its last event. A slow reader reads from the store, at its own pace.
pub(crate) fn stored_events(
    store: Arc<dyn SessionStore>,
    key: SessionKey,
    run: Option<String>,
    after: u64,
    numbers: watch::Receiver<u64>,
) -> BoxStream<'static, Result<Event, Infallible>> {
    let page = Vec::new().into_iter();
    let reader = Reader { store, key, run, after, numbers, page, is_over: false };
    unfold(reader, |mut reader| async move {
        let event = reader.next().await?;
        Some((Ok(sse_event(&event)), reader))
    })
    .boxed()
}

impl Reader {
    /// Waits for new events, also of another process. Returns `None` if the run has ended and its
    /// last event is not stored.
    async fn wait(&mut self) -> Option<()> {
        if let Ok(changed) = timeout(POLL, self.numbers.changed()).await {
            return changed.ok();
        }
        match (&self.run, self.store.active_run(&self.key).await) {
            (Some(run), Ok(active)) if active.as_ref() != Some(run) => {
                self.is_over = true;
                Some(())
            }
            _ => Some(()),
        }
    }

    async fn next(&mut self) -> Option<StoredEvent> {
        loop {
            if let Some(event) = self.page.next() {
                self.after = event.number;
                self.is_over = self.run.is_some() && is_last(&event.event);
                return Some(event);
            }
            self.numbers.mark_unchanged();
            let page = self.store.events(&self.key, self.run.as_deref(), self.after, PAGE).await;
            match page {
                Ok(page) if page.is_empty() && self.is_over => return None,
                Ok(page) if page.is_empty() => self.wait().await?,
                Ok(page) => self.page = page.into_iter(),
                Err(error) => {
                    tracing::warn!(%error, "events cannot be read");
                    return None;
                }
            }
        }
    }
}

/// Returns the last event of a run with an output.
pub(crate) fn output_event(output: &RunOutput) -> Value {
    match output {
        RunOutput::Answer(answer) => {
            json!({"type": "done", "text": answer.text, "usage": answer.usage, "stop_reason": answer.stop_reason})
        }
        RunOutput::Suspended(suspended) => json!({"type": "suspended", "pending": suspended.pending}),
    }
}

/// Returns the last event of a run that fails or is cancelled.
pub(crate) fn error_event(error: &AgentErrorKind) -> Value {
    json!({"type": "error", "error": describe(error)})
}

/// Returns `true` for the last event of a run, until it is continued.
fn is_last(event: &Value) -> bool {
    matches!(event["type"].as_str(), Some("done" | "suspended" | "error"))
}

fn sse_event(event: &StoredEvent) -> Event {
    let mut data = event.event.clone();
    if let Value::Object(members) = &mut data {
        members.insert("run_id".to_owned(), json!(event.run));
    }
    Event::default().id(event.number.to_string()).data(data.to_string())
}
