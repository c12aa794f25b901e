use std::collections::VecDeque;

use haft_core::model::{
    ChatEvent, ChatResponse, ModelError,
    adapter::{decode_error, error_in_place_of_reply, excerpt},
};
use haft_http::model::StreamAccumulator;

use super::{
    GenerateContentAccumulator, InteractionsAccumulator, interactions::InteractionsEvent, wire::WireReplies,
};

impl StreamAccumulator for GenerateContentAccumulator {
    type Event = WireReplies;

    fn read(data: &[u8]) -> serde_json::Result<WireReplies> {
        WireReplies::read(data)
    }

    fn add(&mut self, event: WireReplies, events: &mut VecDeque<ChatEvent>) -> Result<(), ModelError> {
        self.add(event, &mut Some(events))
    }

    fn decode_whole(mut self, body: &[u8]) -> Result<ChatResponse, ModelError> {
        let replies = WireReplies::read(body).map_err(|error| decode_error(&error, body))?;
        let is_reply = replies.replies.iter().any(|reply| reply.candidates.is_some());
        self.add(replies, &mut None)?;
        if is_reply { self.finish(&mut None) } else { Err(not_a_reply(body, "candidates")) }
    }

    fn is_finished(&self) -> bool {
        self.reply().is_finished()
    }

    fn is_answered(&self) -> bool {
        self.reply().is_answered()
    }

    fn finish(self, events: &mut VecDeque<ChatEvent>) -> Result<ChatResponse, ModelError> {
        self.finish(&mut Some(events))
    }

    fn into_truncated(self, reason: String) -> ModelError {
        self.into_truncated(reason)
    }
}

impl StreamAccumulator for InteractionsAccumulator {
    type Event = InteractionsEvent;

    fn read(data: &[u8]) -> serde_json::Result<InteractionsEvent> {
        InteractionsEvent::read(data)
    }

    fn add(&mut self, event: InteractionsEvent, events: &mut VecDeque<ChatEvent>) -> Result<(), ModelError> {
        self.add(event, &mut Some(events))
    }

    fn decode_whole(self, body: &[u8]) -> Result<ChatResponse, ModelError> {
        self.decode_whole(body)
    }

    fn is_finished(&self) -> bool {
        self.reply().is_finished()
    }

    fn is_answered(&self) -> bool {
        self.reply().is_finished()
    }

    fn is_over(&self) -> bool {
        self.is_completed()
    }

    fn finish(self, events: &mut VecDeque<ChatEvent>) -> Result<ChatResponse, ModelError> {
        self.finish(&mut Some(events))
    }

    fn into_truncated(self, reason: String) -> ModelError {
        self.into_truncated(reason)
    }
}

/// Returns the error for `body`, which has no field `missing`. A reply without candidates is empty.
pub(super) fn not_a_reply(body: &[u8], missing: &str) -> ModelError {
    let json: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    if let Some(error) = error_in_place_of_reply(&json) {
        return error;
    }
    if json.get("usageMetadata").is_some() || json.get("responseId").is_some() {
        return ModelError::EmptyResponse;
    }
    ModelError::InvalidResponse(format!("it has no {missing}: {}", excerpt(&json.to_string())))
}
