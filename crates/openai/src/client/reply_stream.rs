use std::{collections::VecDeque, mem, time::Duration};

use futures::stream::{self, Stream};
use haft_core::{ChatEvent, ChatResponse, ModelError};
use tokio::time::{Instant, timeout_at};
use tracing::{Instrument as _, Span};

use super::{
    events::{EventParser, ServerEvent, TooLong},
    reply::Reply,
};
use crate::{
    failure::Complaint,
    reply::{Streamed, unreadable},
};

/// How long `[DONE]` and the usage may take after the reason to stop: some servers keep the connection without a word.
const FAREWELL: Duration = Duration::from_secs(2);

/// What a server sends only to show that it is alive.
const ALIVE: [&[u8]; 5] = [b"", b"null", b"ping", b"keep-alive", b"heartbeat"];

/// A reply that comes in pieces. Nothing is read ahead of who reads it: the server waits.
pub(super) struct ReplyStream<F> {
    reply: Reply,
    parser: EventParser,
    fold: F,
    events: VecDeque<ChatEvent>,
    /// When the wait for what may follow the answer ends.
    farewell: Option<Instant>,
    is_over: bool,
}

impl<F: Streamed> ReplyStream<F> {
    pub(super) fn new(reply: Reply, fold: F) -> Self {
        let (parser, events) = (EventParser::default(), VecDeque::new());
        Self { reply, parser, fold, events, farewell: None, is_over: false }
    }

    /// The whole reply. A server that streams although nobody asked for it is read as well.
    pub(super) async fn whole(mut self) -> Result<ChatResponse, ModelError> {
        if !self.reply.is_event_stream().await? {
            return self.fold.whole(&self.reply.body().await?);
        }
        while let Some(event) = self.next().await? {
            if let ChatEvent::Finished(response) = event {
                return Ok(response);
            }
        }
        Err(ModelError::EmptyResponse)
    }

    /// The events as they come, within a span that is told the end of them.
    pub(super) fn into_events(self, span: Span) -> impl Stream<Item = Result<ChatEvent, ModelError>> {
        // In a box, since it is handed on with each event.
        stream::try_unfold(Box::new(self), move |mut reply| {
            let within = span.clone();
            async move {
                let event = reply.next().await?;
                if let Some(ChatEvent::Finished(response)) = &event {
                    super::record(&Span::current(), response);
                }
                Ok(event.map(|event| (event, reply)))
            }
            .instrument(within)
        })
    }

    /// The next event; `None` after the last.
    async fn next(&mut self) -> Result<Option<ChatEvent>, ModelError> {
        self.fill().await?;
        Ok(self.events.pop_front())
    }

    /// Waits until there is an event to take, or none to come.
    pub(super) async fn fill(&mut self) -> Result<(), ModelError> {
        while self.events.is_empty() && !self.is_over {
            if self.reply.is_event_stream().await? {
                self.advance().await?;
            } else {
                let response = mem::take(&mut self.fold).whole(&self.reply.body().await?)?;
                self.events.extend(response.into_events());
                self.is_over = true;
            }
        }
        Ok(())
    }

    /// Takes the next event of the server.
    async fn advance(&mut self) -> Result<(), ModelError> {
        if let Some(event) = self.parser.next_event() {
            if is_done(&event.data) {
                self.reply.end().await;
            }
            return self.take(&event);
        }
        let bytes = self.reply.chunk();
        let bytes = if self.fold.is_answered() {
            let end = *self.farewell.get_or_insert_with(|| Instant::now() + FAREWELL);
            timeout_at(end, bytes).await.unwrap_or(Ok(None))
        } else {
            self.farewell = None;
            bytes.await
        };
        match bytes {
            Ok(Some(bytes)) => self.parser.push(&bytes).map_err(|TooLong| too_long()),
            Ok(None) => self.close(),
            // What broke after the reason to stop had come broke nothing.
            Err(_) if self.fold.is_finished() => self.finish(),
            Err(ModelError::Truncated { reason, .. }) => Err(self.cut(reason)),
            Err(other) => Err(other),
        }
    }

    fn take(&mut self, event: &ServerEvent) -> Result<(), ModelError> {
        let data = event.data.as_slice();
        if is_done(data) {
            return self.finish();
        }
        if event.is_error {
            return Err(Complaint::of_body(&String::from_utf8_lossy(data)).without_status());
        }
        if ALIVE.contains(&data.trim_ascii()) {
            return Ok(());
        }
        match F::read(data) {
            Ok(event) => self.fold.add(event, &mut self.events),
            Err(error) if error.is_eof() => Err(self.cut(error.to_string())),
            Err(error) => Err(unreadable(&error, data)),
        }
    }

    /// Ends with the connection: well only if the server had said so before.
    fn close(&mut self) -> Result<(), ModelError> {
        let last = self.parser.last_event().unwrap_or_default();
        if is_done(&last.data) || last.is_error {
            return self.take(&last);
        }
        // An event that was cut cannot be read; then the reply was cut, and that is the error.
        if let Ok(event) = F::read(&last.data) {
            self.fold.add(event, &mut self.events)?;
        }
        if self.fold.is_finished() {
            return self.finish();
        }
        Err(self.cut("the connection was closed in the middle of it"))
    }

    fn finish(&mut self) -> Result<(), ModelError> {
        self.is_over = true;
        let response = mem::take(&mut self.fold).finish(&mut self.events)?;
        self.events.push_back(ChatEvent::Finished(response));
        Ok(())
    }

    fn cut(&mut self, reason: impl Into<String>) -> ModelError {
        mem::take(&mut self.fold).into_truncated(reason.into())
    }
}

fn is_done(data: &[u8]) -> bool {
    data.trim_ascii() == b"[DONE]"
}

fn too_long() -> ModelError {
    ModelError::InvalidResponse("an event of the stream is too long".into())
}
