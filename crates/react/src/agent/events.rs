//! The events of a run, as a stream.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures::{
    future::{BoxFuture, FutureExt as _},
    stream::{BoxStream, Stream, StreamExt as _, poll_fn},
};
use haft_core::{
    RunEvent, RunOutput,
    agent::AgentError,
    export::async_trait,
    tool::{Progress, ProgressSink},
};
use tokio::sync::mpsc;

/// The maximum number of buffered events. A full buffer pauses the run until the reader takes an
/// event (back-pressure).
const EVENT_BUFFER_SIZE: usize = 64;

/// A sink for the events of a run, which sends them to their reader. If there is no reader, the
/// sink discards all events.
#[derive(Clone)]
pub(crate) struct EventSink {
    reader: Option<mpsc::Sender<RunEvent>>,
}

impl EventSink {
    /// Creates a sink without a reader, which discards all events.
    pub(crate) fn unobserved() -> Self {
        Self { reader: None }
    }

    /// Creates a sink, and the stream of its events.
    pub(crate) fn new() -> (Self, BoxStream<'static, RunEvent>) {
        let (sender, mut events) = mpsc::channel(EVENT_BUFFER_SIZE);
        (Self { reader: Some(sender) }, poll_fn(move |cx| events.poll_recv(cx)).boxed())
    }

    /// Returns `true` if the events have a reader.
    pub(crate) fn has_reader(&self) -> bool {
        self.reader.is_some()
    }

    /// Sends the event that `event` returns, and waits while the buffer is full. `event` is not
    /// called if there is no reader.
    pub(crate) async fn emit(&self, event: impl FnOnce() -> RunEvent) {
        // `reserve` fails only while the stream is being dropped. The driver is dropped with it, so
        // the event is not needed any more.
        if let Some(reader) = &self.reader
            && let Ok(permit) = reader.reserve().await
        {
            // The event is created after the `await`, so that the future does not store it.
            permit.send(event());
        }
    }
}

/// A progress sink that forwards progress updates of tool calls to the reader of the run's events and
/// to the progress sink of the host program, and the events of agents inside calls to the reader.
pub(super) struct ProgressRelay {
    pub(super) events: EventSink,
    pub(super) host: Option<Arc<dyn ProgressSink>>,
}

#[async_trait]
impl ProgressSink for ProgressRelay {
    fn report(&self, call_id: &str, progress: Progress) {
        // `try_send` drops the progress while the buffer is full: a slow reader must not block the
        // tool.
        if let Some(reader) = &self.events.reader {
            let event = RunEvent::CallProgress { call_id: call_id.to_owned(), progress: progress.clone() };
            let _ = reader.try_send(event);
        }
        if let Some(host) = &self.host {
            host.report(call_id, progress);
        }
    }

    async fn report_event(&self, call_id: &str, event: RunEvent) {
        let nested = || RunEvent::Nested { call_id: call_id.to_owned(), event: Box::new(event) };
        self.events.emit(nested).await;
    }
}

/// Creates the event stream of a run. `driver` receives the sink for the events and returns the
/// future that drives the run. The output of this future is the last item of the stream. No task is
/// spawned: polling the stream drives the run, and dropping the stream drops the driver.
pub(crate) fn event_stream<'r, F>(
    driver: impl FnOnce(EventSink) -> F,
) -> BoxStream<'r, Result<RunEvent, AgentError>>
where
    F: Future<Output = Result<RunOutput, AgentError>> + Send + 'r,
{
    let (sender, events) = mpsc::channel(EVENT_BUFFER_SIZE);
    let driver = driver(EventSink { reader: Some(sender) }).boxed();
    EventStream { events, driver: Some(driver), end: None }.boxed()
}

struct EventStream<'r> {
    events: mpsc::Receiver<RunEvent>,
    /// The future that drives the run. `None` after the future has finished.
    driver: Option<BoxFuture<'r, Result<RunOutput, AgentError>>>,
    end: Option<Result<RunOutput, AgentError>>,
}

impl Stream for EventStream<'_> {
    type Item = Result<RunEvent, AgentError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        // The driver is polled before the channel, so that unread events do not delay deadlines and
        // cancellation.
        if let Some(driver) = &mut self.driver
            && let Poll::Ready(end) = driver.poll_unpin(cx)
        {
            (self.driver, self.end) = (None, Some(end));
            // An abandoned call may still hold a sender for its progress. Without `close`, the
            // stream would end only after this call.
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
