//! Streamed replies of LangChain: the raw items of `LLM::stream`, as events of haft.

mod anthropic;
mod ollama;
mod openai;

use std::{collections::VecDeque, mem::take};

use futures::{
    Stream, TryStreamExt as _,
    stream::{self, StreamExt as _},
};
use langchain_rust::{language_models::LLMError, schemas::StreamData};
use serde_json::Value;

use haft_core::{
    content::Content,
    limits::SERVER_MESSAGE_BYTES,
    message::{AssistantMessage, ProviderData},
    model::{CallAccumulator, CallIds, CallPiece, ChatEvent, ChatResponse, FinishReason, ModelError},
    usage::Usage,
};

use super::{error, reply};

/// A parser of the items of one stream.
pub(super) struct Reader {
    parse: fn(&mut Accumulator, &Value) -> Result<Option<()>, ModelError>,
    /// `true` if the end of the reply is the last item. A stream of OpenAI has its usage after the
    /// finish reason.
    ends_at_marker: bool,
    reply: Accumulator,
}

impl Reader {
    pub(super) fn openai() -> Self {
        Self { parse: openai::parse, ends_at_marker: false, reply: Accumulator::default() }
    }

    pub(super) fn anthropic() -> Self {
        Self { parse: anthropic::parse, ends_at_marker: true, reply: Accumulator::default() }
    }

    pub(super) fn ollama() -> Self {
        Self { parse: ollama::parse, ends_at_marker: true, reply: Accumulator::default() }
    }

    /// Sets the ids that the server accepts. Its own ids are stored in the reply.
    pub(super) fn with_call_ids(mut self, ids: CallIds) -> Self {
        self.reply.call_ids = ids;
        self
    }

    /// Parses an item and returns its events, or the whole reply after the end of the stream.
    fn push(
        &mut self,
        item: Option<Result<StreamData, LLMError>>,
    ) -> Result<VecDeque<ChatEvent>, ModelError> {
        match item {
            Some(Ok(item)) => self.parse(&item.value)?,
            // A chunk without choices, which Azure sends first. LangChain's OpenAI client fails it.
            Some(Err(LLMError::ContentNotFound(_))) => {}
            // A complete reply of OpenAI lacks its usage at most.
            Some(Err(_)) if self.reply.is_complete => return self.finish(),
            Some(Err(error)) => return Err(error::in_stream(error, self.reply.take_message())),
            None => return self.finish(),
        }
        if self.ends_at_marker && self.reply.is_complete {
            return self.finish();
        }
        Ok(take(&mut self.reply.events))
    }

    fn parse(&mut self, item: &Value) -> Result<(), ModelError> {
        self.reply.calls.begin_chunk();
        if (self.parse)(&mut self.reply, item)?.is_none() {
            let text = item.to_string();
            return Err(ModelError::InvalidResponse(format!(
                "an item of the stream has another format than the `StreamFormat` of the model: {}",
                haft_core::text::truncate_with_ellipsis(&text, 200),
            )));
        }
        self.reply.check_size()
    }

    /// Returns the remaining events and the whole reply.
    fn finish(&mut self) -> Result<VecDeque<ChatEvent>, ModelError> {
        let mut events = take(&mut self.reply.events);
        self.reply.calls.finish(Some(&mut events));
        let reply = take(&mut self.reply).finish()?;
        events.push_back(ChatEvent::Finished(Box::new(reply)));
        Ok(events)
    }
}

/// Reads `items` until the end of the reply, and ends with the whole reply or an error.
pub(super) fn read(
    items: impl Stream<Item = Result<StreamData, LLMError>> + Send + Unpin,
    reader: Reader,
) -> impl Stream<Item = Result<ChatEvent, ModelError>> + Send {
    let events = stream::unfold(Some((items, reader)), |state| async {
        let (mut items, mut reader) = state?;
        let events = reader.push(items.next().await);
        let is_over = match &events {
            Ok(events) => matches!(events.back(), Some(ChatEvent::Finished(_))),
            Err(_) => true,
        };
        Some((events, (!is_over).then_some((items, reader))))
    });
    events.map_ok(|events| stream::iter(events.into_iter().map(Ok))).try_flatten()
}

/// The received parts of a reply.
#[derive(Default)]
struct Accumulator {
    text: String,
    reasoning: String,
    refusal: String,
    calls: CallAccumulator,
    call_ids: CallIds,
    /// The index of the last block of Anthropic that is not a call.
    other_block: Option<i64>,
    finish_reason: Option<FinishReason>,
    /// `true` if the server sent the end of the reply.
    is_complete: bool,
    usage: Usage,
    id: Option<String>,
    model: Option<String>,
    /// The received bytes of texts, names and arguments.
    size: usize,
    /// Events that are not yet sent.
    events: VecDeque<ChatEvent>,
}

impl Accumulator {
    fn push_text(&mut self, text: &str) {
        if !text.is_empty() {
            self.count(text);
            self.text.push_str(text);
            self.events.push_back(ChatEvent::TextDelta { text: text.to_owned() });
        }
    }

    fn push_refusal(&mut self, text: &str) {
        self.count(text);
        self.refusal.push_str(text);
    }

    fn push_reasoning(&mut self, text: &str) {
        if !text.is_empty() {
            self.count(text);
            self.reasoning.push_str(text);
            self.events.push_back(ChatEvent::ReasoningDelta { text: text.to_owned() });
        }
    }

    /// Adds a piece to the call that it continues, or begins a new call.
    fn push_call(&mut self, piece: CallPiece) -> Result<(), ModelError> {
        self.size = self.size.saturating_add(self.calls.push(piece, Some(&mut self.events))?);
        Ok(())
    }

    /// Adds a complete call.
    fn push_whole_call(&mut self, call: CallPiece) -> Result<(), ModelError> {
        let position = self.calls.start(&call);
        self.size = self.size.saturating_add(self.calls.extend(position, call, Some(&mut self.events))?);
        Ok(())
    }

    fn count(&mut self, text: &str) {
        self.size = self.size.saturating_add(text.len());
    }

    /// Fails if the reply exceeds its limit. Limits the memory for a stream without an end.
    fn check_size(&self) -> Result<(), ModelError> {
        if self.size <= SERVER_MESSAGE_BYTES {
            return Ok(());
        }
        Err(ModelError::InvalidResponse(format!("it is longer than {SERVER_MESSAGE_BYTES} bytes")))
    }

    /// Takes the received parts as a message.
    fn take_message(&mut self) -> AssistantMessage {
        let optional = |text: String| Some(text).filter(|text| !text.is_empty());
        let mut provider_data = ProviderData::default();
        self.call_ids.record_issued(self.calls.received_ids(), &mut provider_data);
        AssistantMessage {
            content: optional(take(&mut self.text)).into_iter().map(Content::text).collect(),
            reasoning: optional(take(&mut self.reasoning)),
            tool_calls: take(&mut self.calls).into_calls(),
            refusal: optional(take(&mut self.refusal)),
            provider_data,
            ..AssistantMessage::default()
        }
    }

    fn finish(mut self) -> Result<ChatResponse, ModelError> {
        let lacks_arguments = self.calls.lacks_arguments();
        let message = self.take_message();
        let finish_reason = match self.finish_reason {
            Some(reason) if self.is_complete => reason,
            _ => return Err(error::truncated("the stream ended before the reply", message)),
        };
        let response = reply::from_parts(message, finish_reason, self.usage, lacks_arguments)?;
        Ok(ChatResponse { id: self.id, model: self.model, ..response })
    }
}

/// Returns the number at `pointer`, or 0 if it is missing.
fn number(value: &Value, pointer: &str) -> u64 {
    value.pointer(pointer).and_then(Value::as_u64).unwrap_or(0)
}

/// Returns the string at `pointer`, or `None` if it is missing or empty.
fn filled(value: &Value, pointer: &str) -> Option<String> {
    Some(text(value, pointer).to_owned()).filter(|text| !text.is_empty())
}

/// Returns `arguments` as JSON text. Some servers send an object instead of text.
fn json_text(arguments: Option<&Value>) -> String {
    match arguments {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// Returns the string at `pointer`, or an empty string if it is missing.
fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
