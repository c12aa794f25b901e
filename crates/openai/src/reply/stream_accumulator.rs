use std::collections::VecDeque;

use haft_core::model::{
    ChatEvent, ChatResponse, ModelError,
    adapter::{decode_error, surrogates},
};
use haft_http::model::StreamAccumulator;
use serde_json::Value;

use super::{
    build_chat_response, build_responses_reply, chat_accumulator::ChatAccumulator,
    responses_accumulator::ResponsesAccumulator,
};
use crate::wire::{Completion, ResponsesEvent};

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
