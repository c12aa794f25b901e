//! What a driver does, as a stream of events.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures::{
    future::FutureExt as _,
    stream::{BoxStream, Stream, StreamExt as _},
};
use haft_core::{
    RunEvent, RunOutput,
    agent::AgentError,
    tool::{Progress, ProgressSink},
};
use tokio::sync::mpsc;

use super::woken::Woken;

/// How many events may wait for a slow reader before the run waits too.
const WAITING_EVENTS: usize = 64;

/// Where a driver tells what happens, if anybody watches.
#[derive(Clone)]
pub(crate) struct Events(Option<mpsc::Sender<RunEvent>>);

impl Events {
    /// Of a run that is only waited for.
    pub(crate) fn unwatched() -> Self {
        Self(None)
    }

    /// Whether anybody wants to know what happens before the end.
    pub(crate) fn are_watched(&self) -> bool {
        self.0.is_some()
    }

    /// Tells of an event, and waits while the reader is behind. Where nobody watches, the event is not made.
    pub(crate) async fn tell(&self, event: impl FnOnce() -> RunEvent) {
        // The reader owns the driver: without one nobody is left to be told, and nobody to tell.
        if let Some(reader) = &self.0
            && let Ok(place) = reader.reserve().await
        {
            // Made only now: it would be kept in the state of every run, several times over.
            place.send(event());
        }
    }
}

/// Tells the reader how far calls are, and whoever the host named.
pub(super) struct ProgressRelay {
    pub(super) events: Events,
    pub(super) host: Option<Arc<dyn ProgressSink>>,
}

impl ProgressSink for ProgressRelay {
    fn report(&self, call_id: &str, progress: Progress) {
        // A tool does not wait for a slow reader: what is lost is followed by newer progress.
        if let Some(reader) = &self.events.0 {
            let event = RunEvent::CallProgress { call_id: call_id.to_owned(), progress: progress.clone() };
            let _ = reader.try_send(event);
        }
        if let Some(host) = &self.host {
            host.report(call_id, progress);
        }
    }
}

/// The events of a driver, then its end. Nothing is spawned: the stream drives, and dropping it drops everything.
pub(crate) fn watch<'r, F>(driver: impl FnOnce(Events) -> F) -> BoxStream<'r, Result<RunEvent, AgentError>>
where
    F: Future<Output = Result<RunOutput, AgentError>> + Send + 'r,
{
    let (sender, events) = mpsc::channel(WAITING_EVENTS);
    let driver = Woken::new(driver(Events(Some(sender))).boxed());
    Watched { events, driver, end: None }.boxed()
}

struct Watched<'r> {
    events: mpsc::Receiver<RunEvent>,
    driver: Woken<'r, Result<RunOutput, AgentError>>,
    end: Option<Result<RunOutput, AgentError>>,
}

impl Stream for Watched<'_> {
    type Item = Result<RunEvent, AgentError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        // First of all: however much tools report, deadlines and the token are looked at.
        if let Poll::Ready(end) = self.driver.poll(cx) {
            self.end = Some(end);
            // What an abandoned tool still reports is nobody's any more.
            self.events.close();
        }
        match self.events.poll_recv(cx) {
            Poll::Ready(Some(event)) => Poll::Ready(Some(Ok(event))),
            Poll::Ready(None) => {
                Poll::Ready(self.end.take().map(|end| end.map(|output| RunEvent::Done { output })))
            }
            Poll::Pending => Poll::Pending,
        }
    }
}
