use std::{collections::VecDeque, mem, time::Duration};

use haft_core::model::{ChatEvent, ChatResponse, ModelError};
use tokio::time::{Instant, timeout_at};

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
    /// Whether the server said that this was all.
    is_done: bool,
    is_over: bool,
}

impl<F: Streamed> ReplyStream<F> {
    pub(super) fn new(reply: Reply, fold: F) -> Self {
        let (parser, events) = (EventParser::default(), VecDeque::new());
        Self { reply, parser, fold, events, farewell: None, is_done: false, is_over: false }
    }

    /// The whole reply. A server that streams although nobody asked for it is read as well.
    pub(super) async fn whole(&mut self) -> Result<ChatResponse, ModelError> {
        if !self.reply.is_event_stream().await? {
            return self.read_whole().await;
        }
        // In a box, as what is rare: every request would carry the state of it along.
        while let Some(event) = Box::pin(self.next()).await? {
            if let ChatEvent::Finished(response) = event {
                return Ok(*response);
            }
        }
        Err(ModelError::EmptyResponse)
    }

    /// The next event; `None` after the last.
    async fn next(&mut self) -> Result<Option<ChatEvent>, ModelError> {
        self.fill().await?;
        Ok(self.events.pop_front())
    }

    async fn read_whole(&mut self) -> Result<ChatResponse, ModelError> {
        let body = self.reply.body().await?;
        mem::take(&mut self.fold).whole(&body)
    }

    /// Waits until there is an event to take, or none to come.
    pub(super) async fn fill(&mut self) -> Result<(), ModelError> {
        while self.events.is_empty() && !self.is_over {
            if !self.advance()? {
                self.wait().await?;
            }
        }
        Ok(())
    }

    /// The next event, of what has come of the reply so far.
    pub(super) fn heard(&mut self) -> Result<Option<ChatEvent>, ModelError> {
        while self.events.is_empty() && self.advance()? {}
        Ok(self.events.pop_front())
    }

    /// Whether all events were taken, and none is to come.
    pub(super) fn is_told(&self) -> bool {
        self.is_over && self.events.is_empty()
    }

    /// Takes the server's next event, if it has come.
    fn advance(&mut self) -> Result<bool, ModelError> {
        if self.is_done || self.is_over {
            return Ok(false);
        }
        let Some(event) = self.parser.next_event() else { return Ok(false) };
        self.is_done = is_done(event.data);
        if !self.is_done {
            take(event, &mut self.fold, &mut self.events)?;
        }
        Ok(!self.is_done)
    }

    /// Waits for more of the reply.
    async fn wait(&mut self) -> Result<(), ModelError> {
        if !self.reply.is_event_stream().await? {
            let response = self.read_whole().await?;
            self.events.extend(response.into_events());
            self.is_over = true;
            return Ok(());
        }
        if self.is_done {
            self.reply.end().await;
            return self.finish();
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
            Ok(Some(bytes)) => self.parser.push(bytes).map_err(|TooLong| too_long()),
            Ok(None) => self.close(),
            // What broke after the reason to stop had come broke nothing.
            Err(_) if self.fold.is_finished() => self.finish(),
            Err(ModelError::Truncated { reason, .. }) => Err(cut(&mut self.fold, reason)),
            Err(other) => Err(other),
        }
    }

    /// Ends with the connection: well only if the server had said so before.
    fn close(&mut self) -> Result<(), ModelError> {
        let last = self.parser.last_event().unwrap_or_default();
        if is_done(last.data) {
            return self.finish();
        }
        if last.is_error {
            return take(last, &mut self.fold, &mut self.events);
        }
        // An event that was cut cannot be read; then the reply was cut, and that is the error.
        if let Ok(event) = self.fold.read(last.data) {
            self.fold.add(event, &mut self.events)?;
        }
        if self.fold.is_finished() {
            return self.finish();
        }
        Err(cut(&mut self.fold, "the connection was closed in the middle of it"))
    }

    fn finish(&mut self) -> Result<(), ModelError> {
        self.is_over = true;
        let response = mem::take(&mut self.fold).finish(&mut self.events)?;
        self.events.push_back(ChatEvent::Finished(response.into()));
        Ok(())
    }
}

fn take<F: Streamed>(
    event: ServerEvent<'_>,
    fold: &mut F,
    events: &mut VecDeque<ChatEvent>,
) -> Result<(), ModelError> {
    let data = event.data;
    if event.is_error {
        return Err(Complaint::of_body(&String::from_utf8_lossy(data)).without_status());
    }
    if ALIVE.contains(&data.trim_ascii()) {
        return Ok(());
    }
    match fold.read(data) {
        Ok(event) => fold.add(event, events),
        Err(error) if error.is_eof() => Err(cut(fold, error.to_string())),
        Err(error) => Err(unreadable(&error, data)),
    }
}

fn cut<F: Streamed>(fold: &mut F, reason: impl Into<String>) -> ModelError {
    mem::take(fold).into_truncated(reason.into())
}

fn is_done(data: &[u8]) -> bool {
    data.trim_ascii() == b"[DONE]"
}

fn too_long() -> ModelError {
    ModelError::InvalidResponse("an event of the stream is too long".into())
}
