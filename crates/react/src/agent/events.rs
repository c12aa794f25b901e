//! The events of a driver, as a stream.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures::{
    future::{BoxFuture, FutureExt as _},
    stream::{BoxStream, Stream, StreamExt as _},
};
use haft_core::{
    RunEvent, RunOutput,
    agent::AgentError,
    tool::{Progress, ProgressSink},
};
use tokio::sync::mpsc;

/// Number of buffered events. A full buffer pauses the run until the reader continues
/// (back-pressure).
const EVENT_BUFFER: usize = 64;

/// The sender of events, if the run is observed.
#[derive(Clone)]
pub(crate) struct EventSink(Option<mpsc::Sender<RunEvent>>);

impl EventSink {
    /// Creates a sender for a run that is not observed. It discards all events.
    pub(crate) fn unobserved() -> Self {
        Self(None)
    }

    /// Returns `true` if events are read before the end of the run.
    pub(crate) fn are_observed(&self) -> bool {
        self.0.is_some()
    }

    /// Sends an event, and waits while the buffer is full. For a run that is not observed, `event`
    /// is not called.
    pub(crate) async fn emit(&self, event: impl FnOnce() -> RunEvent) {
        // The event stream owns the driver, so that a send can only fail while both are being
        // dropped.
        if let Some(reader) = &self.0
            && let Ok(permit) = reader.reserve().await
        {
            // Created after the await, so that the event does not enlarge the future.
            permit.send(event());
        }
    }
}

/// Sends the progress of calls to the reader and to the host.
pub(super) struct ProgressRelay {
    pub(super) events: EventSink,
    pub(super) host: Option<Arc<dyn ProgressSink>>,
}

impl ProgressSink for ProgressRelay {
    fn report(&self, call_id: &str, progress: Progress) {
        // A slow reader does not block the tool. Progress is dropped while the buffer is full.
        if let Some(reader) = &self.events.0 {
            let event = RunEvent::CallProgress { call_id: call_id.to_owned(), progress: progress.clone() };
            let _ = reader.try_send(event);
        }
        if let Some(host) = &self.host {
            host.report(call_id, progress);
        }
    }
}

/// Creates the stream of a driver's events, which ends with its output. No task is spawned: polling
/// the stream drives the run, and dropping the stream drops the driver.
pub(crate) fn observe<'r, F>(
    driver: impl FnOnce(EventSink) -> F,
) -> BoxStream<'r, Result<RunEvent, AgentError>>
where
    F: Future<Output = Result<RunOutput, AgentError>> + Send + 'r,
{
    let (sender, events) = mpsc::channel(EVENT_BUFFER);
    let driver = driver(EventSink(Some(sender))).boxed();
    EventStream { events, driver: Some(driver), end: None }.boxed()
}

struct EventStream<'r> {
    events: mpsc::Receiver<RunEvent>,
    /// `None` after the driver finished.
    driver: Option<BoxFuture<'r, Result<RunOutput, AgentError>>>,
    end: Option<Result<RunOutput, AgentError>>,
}

impl Stream for EventStream<'_> {
    type Item = Result<RunEvent, AgentError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        // Polled first, so that unread events do not delay deadlines and cancellation.
        if let Some(driver) = &mut self.driver
            && let Poll::Ready(end) = driver.poll_unpin(cx)
        {
            (self.driver, self.end) = (None, Some(end));
            // Tools that were abandoned may still report progress.
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
