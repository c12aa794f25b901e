//! Events that exceed the limit of a stream.

use std::{
    future,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder};
use futures::{StreamExt as _, stream::BoxStream};
use haft_http::client::ReadBodyError;
use rmcp::{model::ErrorData, transport::streamable_http_client::SseError};
use sse_stream::Sse;
use tokio::time::sleep;

use super::awaited::AwaitedResponse;

/// The delays before the stream of a session is opened again. rmcp adds its own delay.
const BACKOFF: ExponentialBuilder = ExponentialBuilder::new()
    .with_min_delay(Duration::from_millis(250))
    .with_max_delay(Duration::from_secs(30))
    .without_max_times();

/// The effect of an event that is too long.
pub(super) enum Oversized {
    /// The event ends the request that awaits the response.
    EndsRequest(AwaitedResponse),
    /// The event ends the stream of a session, and rmcp opens the stream again.
    Reopens(Arc<ReopenedStream>),
}

impl Oversized {
    /// Returns `stream`, in which the fault of an event that is too long has this effect.
    pub(super) fn handle(
        self,
        stream: BoxStream<'static, Result<Sse, SseError>>,
    ) -> BoxStream<'static, Result<Sse, SseError>> {
        let effect = Arc::new(self);
        let replace = move |event: Result<Sse, SseError>| {
            let effect = Arc::clone(&effect);
            async move {
                match too_long(&event) {
                    Some(reason) => effect.replacement(reason).await.map(Ok),
                    None => Some(event),
                }
            }
        };
        let events = stream.then(replace);
        events.take_while(|event| future::ready(event.is_some())).filter_map(future::ready).boxed()
    }

    /// Returns the event in place of the one that is too long. Returns `None` for the end of the
    /// stream.
    async fn replacement(&self, reason: String) -> Option<Sse> {
        match self {
            Self::EndsRequest(awaited) => {
                Some(Sse::default().data(awaited.error_text(&ErrorData::internal_error(reason, None))))
            }
            Self::Reopens(stream) => {
                let delay = stream.end();
                tracing::warn!(reason, ?delay, "lost a notification of the server; reopening the stream");
                sleep(delay).await;
                None
            }
        }
    }
}

fn too_long(event: &Result<Sse, SseError>) -> Option<String> {
    let Err(SseError::Body(error)) = event else { return None };
    let error = error.downcast_ref()?;
    matches!(error, ReadBodyError::TooLong(_)).then(|| error.to_string())
}

/// The state of the stream of a session, across its connections.
#[derive(Default)]
pub(super) struct ReopenedStream(Mutex<Position>);

#[derive(Default)]
struct Position {
    /// The id of the latest event.
    last_id: Option<String>,
    /// The id of the latest event before the one that was too long.
    end: Option<String>,
    delays: Option<ExponentialBackoff>,
}

impl ReopenedStream {
    /// Records `event`, which is not too long.
    pub(super) fn record(&self, event: &Sse) {
        let mut position = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        position.delays = None;
        if event.id.is_some() {
            position.last_id.clone_from(&event.id);
        }
    }

    /// Records an event that is too long. Returns the delay before the stream is opened again.
    fn end(&self) -> Duration {
        let mut position = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        position.end = position.last_id.clone();
        position.delays.get_or_insert_with(|| BACKOFF.build()).next().unwrap_or_default()
    }

    /// Returns `true` if the event after `id` was too long. A request for the events after `id`
    /// would receive it again.
    pub(super) fn ends_at(&self, id: &str) -> bool {
        let position = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        position.end.as_deref() == Some(id)
    }
}
