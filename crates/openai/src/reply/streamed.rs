use std::collections::VecDeque;

use haft_core::model::{ChatEvent, ChatResponse, ModelError};
use serde_json::Value;

use super::{chat::ChatFold, items::ItemsFold, whole_chat, whole_items};
use crate::wire::{Chunk, Completion, Event, half};

/// A reply that is put together from what one API sends: all that differs between their replies.
pub(crate) trait Streamed: Default + Send {
    /// What comes in one piece.
    type Event;

    /// Reads an event of a stream.
    fn read(&mut self, data: &mut [u8]) -> serde_json::Result<Self::Event>;

    /// Adds an event, and tells what is new.
    fn add(&mut self, event: Self::Event, events: &mut VecDeque<ChatEvent>) -> Result<(), ModelError>;

    /// The reply in the body of one that was not streamed.
    fn whole(self, body: &[u8]) -> Result<ChatResponse, ModelError>;

    /// Whether the server said that nothing more comes, except perhaps for the usage.
    fn is_finished(&self) -> bool;

    /// Whether it is finished, and nothing that is still to come could matter much.
    fn is_answered(&self) -> bool;

    /// The reply, once all of it came. What of it was not told yet is told.
    fn finish(self, events: &mut VecDeque<ChatEvent>) -> Result<ChatResponse, ModelError>;

    /// The error of a reply that ended before it was complete.
    fn into_truncated(self, reason: String) -> ModelError;
}

impl Streamed for ChatFold {
    type Event = Chunk;

    fn read(&mut self, data: &mut [u8]) -> serde_json::Result<Chunk> {
        self.chunks.read(data)
    }

    fn add(&mut self, event: Chunk, events: &mut VecDeque<ChatEvent>) -> Result<(), ModelError> {
        match event {
            Chunk::More(said, text) => self.go_on(said, text, &mut Some(events)),
            Chunk::Other(chunk) => self.add(chunk, false, &mut Some(events)),
        }
    }

    fn whole(self, body: &[u8]) -> Result<ChatResponse, ModelError> {
        let reply = Completion::read(body).map_err(|error| unreadable(&error, body))?;
        whole_chat(self, reply, || serde_json::from_slice(body).unwrap_or_default())
    }

    fn is_finished(&self) -> bool {
        self.so_far().is_finished()
    }

    fn is_answered(&self) -> bool {
        self.so_far().is_answered()
    }

    fn finish(self, events: &mut VecDeque<ChatEvent>) -> Result<ChatResponse, ModelError> {
        self.finish(&mut Some(events))
    }

    fn into_truncated(self, reason: String) -> ModelError {
        self.into_truncated(reason)
    }
}

impl Streamed for ItemsFold {
    type Event = Event;

    fn read(&mut self, data: &mut [u8]) -> serde_json::Result<Event> {
        Event::read(data)
    }

    fn add(&mut self, event: Event, events: &mut VecDeque<ChatEvent>) -> Result<(), ModelError> {
        self.add(event, &mut Some(events))
    }

    fn whole(self, body: &[u8]) -> Result<ChatResponse, ModelError> {
        let read = half::read(body, |json| serde_json::from_slice::<Value>(json));
        let (mut response, is_mended) = read.map_err(|error| unreadable(&error, body))?;
        if is_mended {
            half::make_whole(&mut response);
        }
        whole_items(self, response)
    }

    fn is_finished(&self) -> bool {
        self.so_far().is_finished()
    }

    /// Its last event has all, the usage too.
    fn is_answered(&self) -> bool {
        self.so_far().is_finished()
    }

    fn finish(self, events: &mut VecDeque<ChatEvent>) -> Result<ChatResponse, ModelError> {
        self.finish(&mut Some(events))
    }

    fn into_truncated(self, reason: String) -> ModelError {
        self.into_truncated(reason)
    }
}

/// The error of JSON that cannot be read: cut, or nonsense.
pub(crate) fn unreadable(error: &serde_json::Error, body: &[u8]) -> ModelError {
    if error.is_eof() {
        return ModelError::Truncated { reason: error.to_string(), partial: Box::default() };
    }
    let body = crate::failure::excerpt(&String::from_utf8_lossy(body));
    ModelError::InvalidResponse(format!("{error}: {body}"))
}
