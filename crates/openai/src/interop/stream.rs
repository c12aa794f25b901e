use std::{collections::VecDeque, mem};

use async_openai::{
    error::OpenAIError,
    types::chat::{ChatCompletionResponseStream, CreateChatCompletionStreamResponse},
};
use futures::StreamExt as _;
use haft_core::model::{ChatEvent, ModelError, adapter::decode_error};
use haft_http::model::{StreamAccumulator, USAGE_WAIT};
use serde::Deserialize as _;
use tokio::time::{Instant, timeout_at};

use super::error::from_openai_error;
use crate::{format::EncodingOptions, reply::ChatAccumulator, wire::Completion};

/// The events of a reply that `async-openai` streams.
pub(super) struct ChunkStream {
    chunks: ChatCompletionResponseStream,
    /// The address of the server, for error messages.
    address: String,
    accumulator: ChatAccumulator,
    events: VecDeque<ChatEvent>,
    /// The time at which the wait for the usage ends. `None` before the wait begins.
    usage_deadline: Option<Instant>,
    is_over: bool,
}

type Chunk = Result<CreateChatCompletionStreamResponse, OpenAIError>;

impl ChunkStream {
    pub(super) fn new(
        chunks: ChatCompletionResponseStream,
        address: String,
        encoding: &EncodingOptions,
    ) -> Self {
        let (accumulator, events) = (ChatAccumulator::new(encoding), VecDeque::new());
        Self { chunks, address, accumulator, events, usage_deadline: None, is_over: false }
    }

    /// Returns the next event, or `None` after the last event.
    pub(super) async fn next(&mut self) -> Result<Option<ChatEvent>, ModelError> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            }
            if self.is_over {
                return Ok(None);
            }
            match self.next_chunk().await {
                Some(chunk) => self.add(chunk)?,
                None => self.finish()?,
            }
        }
    }

    /// Returns the next chunk, or `None` at the end of the stream. After the answer, also returns
    /// `None` if the stream does not end within [`USAGE_WAIT`], because some servers send neither
    /// usage nor `[DONE]` and keep the connection open.
    async fn next_chunk(&mut self) -> Option<Chunk> {
        if !self.accumulator.is_answered() {
            return self.chunks.next().await;
        }
        let end = *self.usage_deadline.get_or_insert_with(|| Instant::now() + USAGE_WAIT);
        timeout_at(end, self.chunks.next()).await.unwrap_or(None)
    }

    fn add(&mut self, chunk: Chunk) -> Result<(), ModelError> {
        let chunk = match chunk {
            Ok(chunk) => {
                let chunk = serde_json::to_value(chunk).and_then(Completion::deserialize);
                chunk.map_err(|error| ModelError::InvalidResponse(error.to_string()))?
            }
            // The data is either an error from the server, or a valid chunk that `async-openai`
            // rejects.
            Err(OpenAIError::JSONDeserialize(_, data)) => match Completion::read(data.as_bytes()) {
                Ok(chunk) => chunk,
                Err(error) if error.is_eof() => return Err(self.truncated(error.to_string())),
                Err(error) => return Err(decode_error(&error, data.as_bytes())),
            },
            // After the finish reason the reply is complete, so the error is ignored.
            Err(_) if self.accumulator.is_finished() => return self.finish(),
            Err(error) => {
                return Err(match from_openai_error(error, &self.address) {
                    ModelError::Truncated { reason, .. } => self.truncated(reason),
                    other => other,
                });
            }
        };
        StreamAccumulator::add(&mut self.accumulator, chunk, &mut self.events)
    }

    /// Handles the end of the stream. Returns an error if there was no finish reason, because
    /// `async-openai` ends the stream in the same way after `[DONE]` and after a lost connection.
    fn finish(&mut self) -> Result<(), ModelError> {
        if !self.accumulator.is_finished() {
            return Err(self.truncated("the stream ended before the finish reason".to_owned()));
        }
        self.is_over = true;
        let response = StreamAccumulator::finish(mem::take(&mut self.accumulator), &mut self.events)?;
        self.events.push_back(ChatEvent::Finished(response.into()));
        Ok(())
    }

    fn truncated(&mut self, reason: String) -> ModelError {
        StreamAccumulator::into_truncated(mem::take(&mut self.accumulator), reason)
    }
}
