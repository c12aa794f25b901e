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

/// Maximum number of events that wait for a slow reader before the run waits too.
const EVENT_BUFFER: usize = 64;

/// The sender of events, if the run is observed.
#[derive(Clone)]
pub(crate) struct Events(Option<mpsc::Sender<RunEvent>>);

impl Events {
    /// The events of a run that is not observed.
    pub(crate) fn unobserved() -> Self {
        Self(None)
    }

    /// Returns `true` if events are read before the end of the run.
    pub(crate) fn are_observed(&self) -> bool {
        self.0.is_some()
    }

    /// Sends an event, and waits while the buffer is full. Does not create the event of a run that
    /// is not observed.
    pub(crate) async fn emit(&self, event: impl FnOnce() -> RunEvent) {
        // The event stream owns the driver, so that a send can only fail while both are being
        // dropped.
        if let Some(reader) = &self.0
            && let Ok(place) = reader.reserve().await
        {
            // Created only now, so that it is not part of the future of every run.
            place.send(event());
        }
    }
}

/// Sends the progress of calls to the reader and to the host.
pub(super) struct ProgressRelay {
    pub(super) events: Events,
    pub(super) host: Option<Arc<dyn ProgressSink>>,
}

impl ProgressSink for ProgressRelay {
    fn report(&self, call_id: &str, progress: Progress) {
        // A tool does not wait for a slow reader. Lost progress is followed by newer progress.
        if let Some(reader) = &self.events.0 {
            let event = RunEvent::CallProgress { call_id: call_id.to_owned(), progress: progress.clone() };
            let _ = reader.try_send(event);
        }
        if let Some(host) = &self.host {
            host.report(call_id, progress);
        }
    }
}

/// The events of a driver, then its end. Nothing is spawned: polling the stream drives the run, and
/// dropping it drops everything.
pub(crate) fn observe<'r, F>(driver: impl FnOnce(Events) -> F) -> BoxStream<'r, Result<RunEvent, AgentError>>
where
    F: Future<Output = Result<RunOutput, AgentError>> + Send + 'r,
{
    let (sender, events) = mpsc::channel(EVENT_BUFFER);
    let driver = driver(Events(Some(sender))).boxed();
    Observed { events, driver: Some(driver), end: None }.boxed()
}

struct Observed<'r> {
    events: mpsc::Receiver<RunEvent>,
    /// `None` after its end.
    driver: Option<BoxFuture<'r, Result<RunOutput, AgentError>>>,
    end: Option<Result<RunOutput, AgentError>>,
}

impl Stream for Observed<'_> {
    type Item = Result<RunEvent, AgentError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        // The driver first: deadlines and cancellation do not wait for events.
        if let Some(driver) = &mut self.driver
            && let Poll::Ready(end) = driver.poll_unpin(cx)
        {
            (self.driver, self.end) = (None, Some(end));
            // Ignore later progress of abandoned tools.
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
