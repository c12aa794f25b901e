use std::collections::VecDeque;

use haft_core::model::{ChatEvent, ChatResponse, ModelError};
use serde_json::Value;

use super::{
    build_chat_response, build_responses_reply, chat_accumulator::ChatAccumulator,
    responses_accumulator::ResponsesAccumulator,
};
use crate::wire::{Completion, ResponsesEvent, surrogates};

/// An accumulator that builds a reply from the stream events of one API.
pub(crate) trait StreamAccumulator: Default + Send {
    /// A parsed event of the stream.
    type Event;

    /// Parses the data of a server-sent event.
    fn read(data: &[u8]) -> serde_json::Result<Self::Event>;

    /// Adds `event`, a parsed event of the stream, to the reply. Pushes a [`ChatEvent`] to `events`
    /// for each new piece of content.
    fn add(&mut self, event: Self::Event, events: &mut VecDeque<ChatEvent>) -> Result<(), ModelError>;

    /// Parses `body`, the body of a non-streamed reply.
    fn decode_whole(self, body: &[u8]) -> Result<ChatResponse, ModelError>;

    /// Returns `true` if the finish reason was received and no content has followed it. If the
    /// reply has only reasoning so far, the answer may still follow.
    fn is_finished(&self) -> bool;

    /// Returns `true` if the reply is finished and has an answer. Only the usage may follow.
    fn is_answered(&self) -> bool;

    /// Returns the complete reply. Pushes a [`ChatEvent`] to `events` for content that was held
    /// back.
    fn finish(self, events: &mut VecDeque<ChatEvent>) -> Result<ChatResponse, ModelError>;

    /// Returns the error for a truncated reply, with the partial message.
    fn into_truncated(self, reason: String) -> ModelError;
}

impl StreamAccumulator for ChatAccumulator {
    type Event = Completion;

    fn read(data: &[u8]) -> serde_json::Result<Completion> {
        Completion::read(data)
    }

    fn add(&mut self, event: Completion, events: &mut VecDeque<ChatEvent>) -> Result<(), ModelError> {
        self.add(event, false, &mut Some(events))
    }

    fn decode_whole(self, body: &[u8]) -> Result<ChatResponse, ModelError> {
        let reply = Completion::read(body).map_err(|error| decode_error(&error, body))?;
        build_chat_response(self, reply, || serde_json::from_slice(body).unwrap_or_default())
    }

    fn is_finished(&self) -> bool {
        self.inner().is_finished()
    }

    fn is_answered(&self) -> bool {
        self.inner().is_answered()
    }

    fn finish(self, events: &mut VecDeque<ChatEvent>) -> Result<ChatResponse, ModelError> {
        self.finish(&mut Some(events))
    }

    fn into_truncated(self, reason: String) -> ModelError {
        self.into_truncated(reason)
    }
}

impl StreamAccumulator for ResponsesAccumulator {
    type Event = ResponsesEvent;

    fn read(data: &[u8]) -> serde_json::Result<ResponsesEvent> {
        ResponsesEvent::read(data)
    }

    fn add(&mut self, event: ResponsesEvent, events: &mut VecDeque<ChatEvent>) -> Result<(), ModelError> {
        self.add(event, &mut Some(events))
    }

    fn decode_whole(self, body: &[u8]) -> Result<ChatResponse, ModelError> {
        let read = surrogates::parse_with_stand_ins(body, |json| serde_json::from_slice::<Value>(json));
        let (mut response, has_stand_ins) = read.map_err(|error| decode_error(&error, body))?;
        if has_stand_ins {
            surrogates::join_surrogates(&mut response);
        }
        build_responses_reply(self, response)
    }

    fn is_finished(&self) -> bool {
        self.inner().is_finished()
    }

    /// The final event contains the whole response and the usage, so no answer can follow it.
    fn is_answered(&self) -> bool {
        self.inner().is_finished()
    }

    fn finish(self, events: &mut VecDeque<ChatEvent>) -> Result<ChatResponse, ModelError> {
        self.finish(&mut Some(events))
    }

    fn into_truncated(self, reason: String) -> ModelError {
        self.into_truncated(reason)
    }
}

/// Returns the error for `body`, which could not be parsed: [`ModelError::Truncated`] if the JSON
/// ends early, or else [`ModelError::InvalidResponse`].
pub(crate) fn decode_error(error: &serde_json::Error, body: &[u8]) -> ModelError {
    if error.is_eof() {
        return ModelError::Truncated { reason: error.to_string(), partial: Box::default() };
    }
    let body = crate::api_error::excerpt(&String::from_utf8_lossy(body));
    ModelError::InvalidResponse(format!("{error}: {body}"))
}
