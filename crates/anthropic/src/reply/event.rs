//! The events of a stream, and whole replies.

use std::{collections::VecDeque, mem};

use haft_core::model::{
    ChatEvent, ChatResponse, FinishReason, ModelError,
    adapter::{
        EventSink, FinishKind, ReplyAccumulator, decode_error, error_in_place_of_reply, excerpt,
        in_band_error, surrogates,
    },
};
use haft_http::model::StreamAccumulator;
use serde_json::{Map, Value};

use super::{Block, ReplyBuilder};
use crate::format::{EncodingOptions, kind_of, markers_of};

/// The stop reason of a reply that the same request continues.
pub(crate) const PAUSE: &str = "pause_turn";

/// The stop reason of a reply that the model or a classifier declined.
const REFUSAL: &str = "refusal";

/// An event of a stream.
#[derive(Debug)]
pub(crate) struct Event {
    json: Value,
    has_stand_ins: bool,
}

/// What ended a reply.
#[derive(Debug, Default)]
pub(super) struct Stop {
    reason: Option<String>,
    /// The explanation of a refusal.
    explanation: Option<String>,
    /// `true` after the event `message_stop`.
    is_over: bool,
}

impl ReplyBuilder {
    /// Creates a builder for the reply to a request with `options`. The reply continues `paused`, if
    /// there is one.
    pub(crate) fn new(options: &EncodingOptions, paused: Option<&ChatResponse>) -> Result<Self, ModelError> {
        let accumulator = ReplyAccumulator::new(options.call_ids.clone());
        let mut reply = Self { accumulator, origin: options.origin.clone(), ..Self::default() };
        if let Some(paused) = paused {
            reply.restore(paused)?;
        }
        Ok(reply)
    }

    /// Adds the content of `paused` without events.
    fn restore(&mut self, paused: &ChatResponse) -> Result<(), ModelError> {
        let message = &paused.message;
        let (mut text, mut thought) = (0, 0);
        let markers = markers_of(message, &self.origin);
        for marker in markers.iter().filter_map(Value::as_object) {
            let mut block = Block { marker: marker.clone(), is_complete: true, ..Block::default() };
            let length = block.marker.shift_remove("length").and_then(|length| length.as_u64());
            block.length = length.and_then(|length| length.try_into().ok()).unwrap_or_default();
            let position = if block.kind() == "thinking" { &mut thought } else { &mut text };
            block.start = *position;
            *position += block.length;
            self.blocks.push(block);
        }
        let text = message.text();
        if markers.is_empty() && !text.is_empty() {
            let marker = Map::from_iter([("type".to_owned(), "text".into())]);
            self.blocks.push(Block { marker, length: text.len(), is_complete: true, ..Block::default() });
        }
        self.accumulator.add_text(text, &mut None)?;
        self.accumulator.add_reasoning(message.reasoning.clone().unwrap_or_default(), &mut None)?;
        for call in &message.hosted_calls {
            self.accumulator.start_hosted_call(call.clone(), &mut None)?;
        }
        for citation in &message.citations {
            self.accumulator.add_citation(citation.clone())?;
        }
        self.usage.before = Some(paused.usage);
        Ok(())
    }

    fn set_message(&mut self, message: &Value) {
        let text = |key| message.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        self.accumulator.id = text("id").map(str::to_owned);
        self.accumulator.model = text("model").map(str::to_owned);
        self.usage.add(message.get("usage").unwrap_or(&Value::Null));
    }

    /// Stores the stop reason in `delta`, a whole reply or the delta of a `message_delta` event.
    fn set_stop(&mut self, delta: &Value) {
        let text = |path: &str| delta.pointer(path).and_then(Value::as_str).filter(|text| !text.is_empty());
        if let Some(reason) = text("/stop_reason") {
            self.stop.reason = Some(reason.to_owned());
            self.accumulator.finish_state.set_reason(reason.to_owned());
        }
        if let Some(explanation) = text("/stop_details/explanation") {
            self.stop.explanation = Some(explanation.to_owned());
        }
    }

    fn add_event(&mut self, event: Event, sink: &mut EventSink<'_>) -> Result<(), ModelError> {
        let Event { mut json, has_stand_ins } = event;
        self.has_stand_ins = has_stand_ins;
        self.accumulator.set_has_stand_ins(has_stand_ins);
        let kind = kind_of(&json).to_owned();
        let index = json.get("index").and_then(Value::as_u64);
        // Some gateways omit the index. The event then belongs to the last block.
        let known = match index {
            Some(_) => self.blocks.iter().rposition(|block| block.index == index),
            None => self.blocks.len().checked_sub(1),
        };
        let place = known.unwrap_or(usize::MAX);
        let mut take = |key: &str| json.get_mut(key).map(Value::take).unwrap_or_default();
        match kind.as_str() {
            "message_start" => self.set_message(&take("message")),
            "content_block_start" => {
                let place = self.blocks.len();
                self.begin_block(take("content_block"), sink)?;
                if let Some(block) = self.blocks.get_mut(place) {
                    block.index = index;
                }
            }
            "content_block_delta" => self.add_delta(place, take("delta"), sink)?,
            "content_block_stop" => self.end_block(place, sink)?,
            "message_delta" => {
                self.set_stop(&take("delta"));
                self.usage.add(&take("usage"));
            }
            "message_stop" => self.stop.is_over = true,
            "error" => return Err(in_band_error(&json)),
            "" => return Err(error_in_place_of_reply(&json).unwrap_or_else(|| invalid(&json))),
            // `ping`, and types that the API adds later.
            _ => {}
        }
        Ok(())
    }

    fn add_whole(&mut self, mut reply: Value) -> Result<(), ModelError> {
        if kind_of(&reply) == "error" {
            return Err(in_band_error(&reply));
        }
        let Some(Value::Array(blocks)) = reply.get_mut("content").map(Value::take) else {
            return Err(error_in_place_of_reply(&reply).unwrap_or_else(|| invalid(&reply)));
        };
        self.set_message(&reply);
        self.set_stop(&reply);
        let is_cut = self.accumulator.finish_state.kind() == FinishKind::Limit;
        let count = blocks.len();
        for (place, mut block) in (1..).zip(blocks) {
            // The input of a call that a limit has cut is incomplete, or an empty object.
            if is_cut && place == count && kind_of(&block) == "tool_use" {
                block.as_object_mut().map(|block| block.shift_remove("input"));
            }
            self.add_whole_block(block, &mut None)?;
        }
        Ok(())
    }

    fn finish_reply(mut self, sink: &mut EventSink<'_>) -> Result<ChatResponse, ModelError> {
        self.accumulator.flush(sink)?;
        self.accumulator.usage = self.usage.total();
        let Some(reason) = self.stop.reason.take() else {
            return Err(self.accumulator.into_truncated("it ended without a stop reason"));
        };
        self.store_blocks(reason == PAUSE);
        if reason == PAUSE {
            return Ok(self.into_paused());
        }
        if reason != REFUSAL {
            return self.accumulator.finish();
        }
        let explanation = self.stop.explanation.take();
        let mut response = self.accumulator.finish()?;
        let text = Some(response.message.text()).filter(|text| !text.is_empty());
        let explanation = explanation.or(text).unwrap_or_else(|| "The model declined to answer.".to_owned());
        response.message.refusal = Some(explanation);
        response.finish_reason = FinishReason::Stop;
        Ok(response)
    }

    /// Returns the reply so far. It may have only calls of hosted tools.
    fn into_paused(mut self) -> ChatResponse {
        let (id, model) = (self.accumulator.id.take(), self.accumulator.model.take());
        let usage = self.accumulator.usage.unwrap_or_default();
        let message = self.accumulator.into_message();
        ChatResponse { usage, id, model, finish_reason: FinishReason::Other(PAUSE.to_owned()), message }
    }
}

fn invalid(json: &Value) -> ModelError {
    ModelError::InvalidResponse(format!("it is no message: {}", excerpt(&json.to_string())))
}

impl StreamAccumulator for ReplyBuilder {
    type Event = Event;

    fn read(data: &[u8]) -> serde_json::Result<Event> {
        let read = surrogates::parse_with_stand_ins(data, |json| serde_json::from_slice::<Value>(json))?;
        Ok(Event { json: read.0, has_stand_ins: read.1 })
    }

    fn add(&mut self, event: Event, events: &mut VecDeque<ChatEvent>) -> Result<(), ModelError> {
        self.add_event(event, &mut Some(events))
    }

    fn decode_whole(mut self, body: &[u8]) -> Result<ChatResponse, ModelError> {
        let Event { mut json, has_stand_ins } =
            Self::read(body).map_err(|error| decode_error(&error, body))?;
        if has_stand_ins {
            surrogates::join_surrogates(&mut json);
        }
        self.add_whole(json)?;
        self.finish_reply(&mut None)
    }

    fn is_finished(&self) -> bool {
        self.stop.reason.is_some()
    }

    fn is_answered(&self) -> bool {
        self.is_finished()
    }

    fn is_over(&self) -> bool {
        self.stop.is_over
    }

    fn finish(self, events: &mut VecDeque<ChatEvent>) -> Result<ChatResponse, ModelError> {
        self.finish_reply(&mut Some(events))
    }

    fn into_truncated(mut self, reason: String) -> ModelError {
        // An error about the size limit is ignored, because the reply has failed already.
        let _ = self.accumulator.flush(&mut None);
        mem::take(&mut self.accumulator).into_truncated(reason)
    }
}
