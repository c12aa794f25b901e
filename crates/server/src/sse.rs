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
use haft_core::{RunOutput, agent::AgentErrorKind, message::MessageBody};
use haft_session::{Entry, RunSummary, Session, SessionKey, SessionStore, StoreError, StoredEvent};
use serde_json::{Value, json};
use tokio::{sync::watch, time::timeout};
use tokio_util::sync::CancellationToken;
use utoipa::ToSchema;

use crate::{
    client::ClientGuard,
    error::describe,
    live::{Feed, FeedEvent},
    stored::StoredAgent,
};

/// The time after which a comment keeps a silent connection open.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// The time after which events of other processes are looked for.
const POLL: Duration = Duration::from_secs(2);

/// The number of events that are read at once.
const PAGE: u32 = 256;

/// The maximum number of entries in a snapshot.
const SNAPSHOT_ENTRIES: u32 = 100;

/// An event of a stream.
#[derive(ToSchema)]
#[allow(dead_code, reason = "a description, which has no value")]
pub(crate) struct StreamEvent {
    /// The number of the event. A stream without a stored conversation has none.
    id: Option<String>,
    /// A JSON object: `type` and further members, and `run_id` for a stored run. Its first event is
    /// `run_started` with the `messages` of the user, its last one `done`, `suspended` or `error`.
    data: String,
}

pub(crate) type Events =
    Sse<axum::response::sse::KeepAliveStream<BoxStream<'static, Result<Event, Infallible>>>>;

pub(crate) fn events(stream: BoxStream<'static, Result<Event, Infallible>>) -> Events {
    Sse::new(stream).keep_alive(KeepAlive::new().interval(HEARTBEAT))
}

/// Returns the number of the last event that the client has: the header `Last-Event-ID` (HTML,
/// section 9.2.3), or the query parameter `after`.
pub(crate) fn last_event(headers: &HeaderMap, after: Option<u64>) -> Option<u64> {
    let header = headers.get("last-event-id").and_then(|value| value.to_str().ok()?.parse().ok());
    header.or(after)
}

/// The reader of the stored events of a session.
struct Reader {
    store: Arc<dyn SessionStore>,
    key: SessionKey,
    run: Option<String>,
    /// The number of the last event of the client. `None` before the first snapshot.
    after: Option<u64>,
    feed: Feed,
    changes: watch::Receiver<u64>,
    closing: CancellationToken,
    page: std::vec::IntoIter<FeedEvent>,
    is_over: bool,
    client: Option<ClientGuard>,
}

/// Returns the stored events of a session or a run after the number `after`, and then the new ones.
/// Without a number, the events of a session begin with a snapshot. The events of a `run` end after
/// its last event. A slow reader reads from the store, at its own pace.
pub(crate) fn events_of(
    stored: &StoredAgent,
    key: SessionKey,
    run: Option<String>,
    after: Option<u64>,
    client: Option<ClientGuard>,
) -> Events {
    let feed = stored.live().feed(&key);
    let (changes, closing) = (feed.subscribe(), stored.live().closing().clone());
    let (store, page) = (Arc::clone(stored.store()), Vec::new().into_iter());
    // All events of a run are a complete picture of it.
    let after = if run.is_some() { after.or(Some(0)) } else { after };
    let reader = Reader { store, key, run, after, feed, changes, closing, page, is_over: false, client };
    events(
        unfold(reader, |mut reader| async move {
            let event = reader.next().await?;
            Some((Ok(event), reader))
        })
        .boxed(),
    )
}

impl Reader {
    /// Waits for new events, also of another process. Returns `None` if the server ends.
    async fn wait(&mut self) -> Option<()> {
        tokio::select! {
            biased;
            () = self.closing.cancelled() => return None,
            changed = timeout(POLL, self.changes.changed()) => if let Ok(changed) = changed {
                return changed.ok();
            },
        }
        if let Some(run) = &self.run
            && let Ok(active) = self.store.active_run(&self.key).await
        {
            self.is_over = active.as_ref() != Some(run);
        }
        Some(())
    }

    async fn next(&mut self) -> Option<Event> {
        match self.try_next().await {
            Ok(event) => event,
            Err(error) => {
                tracing::warn!(%error, "events cannot be read");
                self.client.take().into_iter().for_each(ClientGuard::disarm);
                None
            }
        }
    }

    async fn try_next(&mut self) -> Result<Option<Event>, StoreError> {
        loop {
            if let Some(event) = self.page.next() {
                self.after = Some(event.number);
                if self.run.as_ref().is_some_and(|run| **run != *event.run) {
                    continue;
                }
                self.is_over = self.run.is_some() && event.is_last;
                let sent = Event::default().id(event.number.to_string()).data(&*event.data);
                return Ok(Some(sent));
            }
            let Some(after) = self.after else { return self.snapshot(true).await.map(Some) };
            self.changes.mark_unchanged();
            if let Some(events) = self.feed.events_after(after) {
                self.page = events.into_iter();
                continue;
            }
            match self.store.events(&self.key, self.run.as_deref(), after, PAGE).await {
                Ok(page) if page.is_empty() && self.is_over => return Ok(None),
                Ok(page) if page.is_empty() => {
                    if self.wait().await.is_none() {
                        return Ok(None);
                    }
                }
                Ok(page) => {
                    let event = |it: StoredEvent| FeedEvent::new(it.number, &it.run, &it.event);
                    self.page = page.into_iter().map(event).collect::<Vec<_>>().into_iter();
                }
                Err(StoreError::EventsExpired { .. }) => return self.snapshot(false).await.map(Some),
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the latest entries of the conversation, and the id of its active run. With
    /// `has_events`, all events of the active run follow, and its replies and results are left out.
    /// Without it, the events after the snapshot follow.
    async fn snapshot(&mut self, has_events: bool) -> Result<Event, StoreError> {
        let (session, active, followed, entries) = self.read_snapshot(has_events).await?;
        let after = followed.map_or(session.last_event, |run| run.first_event - 1);
        self.after = Some(after);
        let data = json!({"type": "snapshot", "session": session, "entries": entries, "active_run": active});
        Ok(Event::default().id(after.to_string()).data(data.to_string()))
    }

    /// Reads the parts of a snapshot: the session, the id of its active run, this run if all of its
    /// events follow, and the entries.
    async fn read_snapshot(
        &self,
        has_events: bool,
    ) -> Result<(Session, Option<String>, Option<RunSummary>, Vec<Entry>), StoreError> {
        loop {
            let session = self.store.session(&self.key).await?;
            let active = self.store.active_run(&self.key).await?;
            let followed = match &active {
                Some(run) if has_events => Some(self.store.run_summary(self.key.tenant(), run).await?),
                _ => None,
            };
            // The latest entries before the run, and from there on those that no event contains.
            let base = followed.as_ref().map_or(session.entries, |run| run.first_entry - 1);
            let mut after = base.saturating_sub(SNAPSHOT_ENTRIES.into());
            let mut entries = Vec::new();
            while after < session.entries {
                let page = self.store.entries(&self.key, after, SNAPSHOT_ENTRIES).await?;
                let Some(last) = page.last() else { break };
                after = last.position;
                let is_shown = |entry: &Entry| {
                    let is_own = followed.as_ref().is_some_and(|run| entry.run.as_ref() == Some(&run.id));
                    entry.position <= session.entries && (!is_own || is_user(entry))
                };
                entries.extend(page.into_iter().filter(is_shown));
            }
            // A run that has ended in between is in the entries, and in the events after the session.
            let unchanged = self.store.session(&self.key).await?.last_event == session.last_event;
            if followed.is_some() || unchanged {
                return Ok((session, active, followed, entries));
            }
        }
    }
}

fn is_user(entry: &Entry) -> bool {
    entry.message().is_some_and(|message| matches!(message.body(), MessageBody::User { .. }))
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
pub(crate) fn is_last(event: &Value) -> bool {
    matches!(event["type"].as_str(), Some("done" | "suspended" | "error"))
}

/// Returns the data of an event of a run.
pub(crate) fn sse_data(run: &str, event: &Value) -> String {
    let mut data = event.clone();
    if let Value::Object(members) = &mut data {
        members.insert("run_id".to_owned(), run.into());
    }
    data.to_string()
}
