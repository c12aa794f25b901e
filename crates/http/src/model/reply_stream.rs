use std::{collections::VecDeque, fmt, mem, time::Duration};

use haft_core::model::{ChatEvent, ChatResponse, ModelError, ServerError, adapter::decode_error};
use tokio::time::{Instant, timeout_at};

use super::{EventParser, HttpReply, ServerEvent};

/// The time to wait for the usage and `[DONE]` after the finish reason. Some servers send neither
/// and keep the connection open.
pub const USAGE_WAIT: Duration = Duration::from_secs(2);

/// The data of keep-alive events, which are ignored.
const KEEP_ALIVE_DATA: [&[u8]; 5] = [b"", b"null", b"ping", b"keep-alive", b"heartbeat"];

/// An accumulator that builds a reply from the stream events of one API.
pub trait StreamAccumulator: Default + Send {
    /// A parsed event of the stream.
    type Event;

    /// Parses the data of a server-sent event.
    ///
    /// # Errors
    ///
    /// Fails if the data is not the JSON of an event.
    fn read(data: &[u8]) -> serde_json::Result<Self::Event>;

    /// Adds `event`, a parsed event of the stream, to the reply. Pushes a [`ChatEvent`] to `events`
    /// for each new piece of content.
    ///
    /// # Errors
    ///
    /// Fails if the event is an error of the server, or exceeds a limit.
    fn add(&mut self, event: Self::Event, events: &mut VecDeque<ChatEvent>) -> Result<(), ModelError>;

    /// Parses `body`, the body of a non-streamed reply.
    ///
    /// # Errors
    ///
    /// Fails if the body is no complete reply.
    fn decode_whole(self, body: &[u8]) -> Result<ChatResponse, ModelError>;

    /// Returns `true` if the finish reason was received and no content has followed it. If the
    /// reply has only reasoning so far, the answer may still follow.
    fn is_finished(&self) -> bool;

    /// Returns `true` if the reply is finished and has an answer. Only the usage may follow.
    fn is_answered(&self) -> bool;

    /// Returns `true` if nothing follows, because the API has an event for the end of a stream.
    fn is_over(&self) -> bool {
        false
    }

    /// Returns the complete reply. Pushes a [`ChatEvent`] to `events` for content that was held
    /// back.
    ///
    /// # Errors
    ///
    /// Fails if the reply is incomplete or empty.
    fn finish(self, events: &mut VecDeque<ChatEvent>) -> Result<ChatResponse, ModelError>;

    /// Returns the error for a truncated reply, with the partial message.
    fn into_truncated(self, reason: String) -> ModelError;
}

/// The events of a streamed reply. Bytes are read from the connection only on demand, so a slow
/// reader applies back-pressure.
pub struct ReplyStream<A> {
    reply: HttpReply,
    parser: EventParser,
    accumulator: A,
    events: VecDeque<ChatEvent>,
    /// The time at which the wait for the usage and `[DONE]` ends. `None` before the wait begins.
    usage_deadline: Option<Instant>,
    /// `true` after `[DONE]`, or another event for the end, was received. Later events are not
    /// parsed.
    has_done_marker: bool,
    is_over: bool,
}

impl<A: StreamAccumulator> ReplyStream<A> {
    /// Creates the stream of the events in the body of `reply`. Waits for the first event of a
    /// streamed reply, or reads the whole reply to a non-streamed request and returns it.
    ///
    /// # Errors
    ///
    /// Fails if the reply is an error, is incomplete, or does not arrive in time.
    pub async fn open(
        reply: HttpReply,
        accumulator: A,
        is_streamed: bool,
    ) -> Result<(Self, Option<ChatResponse>), ModelError> {
        let mut stream = Self {
            reply,
            parser: EventParser::default(),
            accumulator,
            events: VecDeque::new(),
            usage_deadline: None,
            has_done_marker: false,
            is_over: false,
        };
        let response = match is_streamed {
            true => stream.wait_for_event().await.map(|()| None),
            false => stream.read_reply().await.map(Some),
        };
        Ok((stream, response?))
    }

    /// Reads the whole reply to a non-streamed request. An event stream is also accepted, because
    /// some servers always stream.
    async fn read_reply(&mut self) -> Result<ChatResponse, ModelError> {
        if !self.reply.is_event_stream().await? {
            return self.read_unstreamed().await;
        }
        // The future of this rare path is boxed, because it would otherwise enlarge the future of
        // every request.
        while let Some(event) = Box::pin(self.next()).await? {
            if let ChatEvent::Finished(response) = event {
                return Ok(*response);
            }
        }
        Err(ModelError::EmptyResponse)
    }

    /// Returns the next event, or `None` after the last event.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub async fn next(&mut self) -> Result<Option<ChatEvent>, ModelError> {
        self.wait_for_event().await?;
        Ok(self.events.pop_front())
    }

    async fn read_unstreamed(&mut self) -> Result<ChatResponse, ModelError> {
        let body = self.reply.read_body().await?;
        mem::take(&mut self.accumulator).decode_whole(&body)
    }

    /// Reads from the connection until at least one event is available or the reply has ended.
    async fn wait_for_event(&mut self) -> Result<(), ModelError> {
        while self.events.is_empty() && !self.is_over {
            if !self.parse_event()? {
                self.receive().await?;
            }
        }
        Ok(())
    }

    /// Parses one server-sent event from the received bytes. Returns `false` if more bytes are
    /// needed, or if the stream is over.
    fn parse_event(&mut self) -> Result<bool, ModelError> {
        if self.has_done_marker || self.is_over {
            return Ok(false);
        }
        let Some(event) = self.parser.next_event() else { return Ok(false) };
        self.has_done_marker = is_done_marker(event.data);
        if !self.has_done_marker {
            process_event(event, &mut self.accumulator, &mut self.events)?;
            self.has_done_marker = self.accumulator.is_over();
        }
        Ok(!self.has_done_marker)
    }

    /// Waits for more bytes and passes them to the parser. Ends the reply after `[DONE]` or at the
    /// end of the connection. A reply that is not streamed is read as a whole.
    async fn receive(&mut self) -> Result<(), ModelError> {
        if !self.reply.is_event_stream().await? {
            let response = self.read_unstreamed().await?;
            self.events.extend(response.into_events());
            self.is_over = true;
            return Ok(());
        }
        if self.has_done_marker {
            self.reply.drain().await;
            return self.finish();
        }
        let bytes = self.reply.next_chunk();
        let bytes = if self.accumulator.is_answered() {
            let end = *self.usage_deadline.get_or_insert_with(|| Instant::now() + USAGE_WAIT);
            timeout_at(end, bytes).await.unwrap_or(Ok(None))
        } else {
            self.usage_deadline = None;
            bytes.await
        };
        match bytes {
            Ok(Some(bytes)) => {
                self.parser.push(bytes).map_err(|error| ModelError::InvalidResponse(error.to_string()))
            }
            Ok(None) => self.handle_close(),
            // After the finish reason the reply is complete, so the error is ignored.
            Err(_) if self.accumulator.is_finished() => self.finish(),
            Err(ModelError::Truncated { reason, .. }) => Err(truncated_error(&mut self.accumulator, reason)),
            Err(other) => Err(other),
        }
    }

    /// Handles the end of the connection. Returns an error if the server sent neither a finish
    /// reason nor `[DONE]`.
    fn handle_close(&mut self) -> Result<(), ModelError> {
        let last = self.parser.last_event().unwrap_or_default();
        if is_done_marker(last.data) {
            return self.finish();
        }
        if last.is_error {
            return process_event(last, &mut self.accumulator, &mut self.events);
        }
        // A last event that cannot be parsed was truncated, so it is ignored.
        if let Ok(event) = A::read(last.data) {
            self.accumulator.add(event, &mut self.events)?;
        }
        if self.accumulator.is_finished() {
            return self.finish();
        }
        Err(truncated_error(&mut self.accumulator, "the connection was closed early"))
    }

    fn finish(&mut self) -> Result<(), ModelError> {
        self.is_over = true;
        let response = mem::take(&mut self.accumulator).finish(&mut self.events)?;
        self.events.push_back(ChatEvent::Finished(response.into()));
        Ok(())
    }
}

fn process_event<A: StreamAccumulator>(
    event: ServerEvent<'_>,
    accumulator: &mut A,
    events: &mut VecDeque<ChatEvent>,
) -> Result<(), ModelError> {
    let data = event.data;
    if event.is_error {
        return Err(ServerError::parse(&String::from_utf8_lossy(data)).into_model_error(None, None));
    }
    if KEEP_ALIVE_DATA.contains(&data.trim_ascii()) {
        return Ok(());
    }
    match A::read(data) {
        Ok(event) => accumulator.add(event, events),
        Err(error) if error.is_eof() => Err(truncated_error(accumulator, error.to_string())),
        Err(error) => Err(decode_error(&error, data)),
    }
}

fn truncated_error<A: StreamAccumulator>(accumulator: &mut A, reason: impl Into<String>) -> ModelError {
    mem::take(accumulator).into_truncated(reason.into())
}

fn is_done_marker(data: &[u8]) -> bool {
    data.trim_ascii() == b"[DONE]"
}

impl<A> fmt::Debug for ReplyStream<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplyStream")
            .field("reply", &self.reply)
            .field("is_over", &self.is_over)
            .finish_non_exhaustive()
    }
}
