//! Streamed replies of LangChain: the raw items of `LLM::stream`, as events of haft.

mod anthropic;
mod ollama;
mod openai;

use std::collections::HashSet;

use futures::{
    Stream, TryStreamExt as _,
    stream::{self, StreamExt as _},
};
use langchain_rust::{language_models::LLMError, schemas::StreamData};
use serde_json::Value;

use haft_core::{
    ToolCall,
    content::Content,
    message::AssistantMessage,
    model::{ChatEvent, ChatResponse, FinishReason, ModelError},
    usage::Usage,
};

use super::{error, reply};

/// A parser of the items of one stream.
pub(super) struct Reader {
    parse: fn(&mut Accumulator, &Value) -> Option<()>,
    reply: Accumulator,
}

impl Reader {
    pub(super) fn openai() -> Self {
        Self { parse: openai::parse, reply: Accumulator::default() }
    }

    pub(super) fn anthropic() -> Self {
        Self { parse: anthropic::parse, reply: Accumulator::default() }
    }

    pub(super) fn ollama() -> Self {
        Self { parse: ollama::parse, reply: Accumulator::default() }
    }

    /// Parses an item and returns its events.
    fn push(&mut self, item: &StreamData) -> Result<Vec<ChatEvent>, ModelError> {
        if (self.parse)(&mut self.reply, &item.value).is_none() {
            let text = item.value.to_string();
            return Err(ModelError::InvalidResponse(format!(
                "an item of the stream has another format than the `StreamFormat` of the model: {}",
                haft_core::text::truncate_with_ellipsis(&text, 200),
            )));
        }
        Ok(std::mem::take(&mut self.reply.events))
    }
}

/// Reads `items` to the end, and ends with the whole reply or an error.
pub(super) fn read(
    items: impl Stream<Item = Result<StreamData, LLMError>> + Send,
    mut reader: Reader,
) -> impl Stream<Item = Result<ChatEvent, ModelError>> + Send {
    let items = items.map(Some).chain(stream::iter([None]));
    let mut is_over = false;
    let events = items.map(move |item| {
        match item {
            _ if is_over => Ok(Vec::new()),
            Some(Ok(item)) => reader.push(&item),
            Some(Err(error)) => Err(error::in_stream(error, &reader.reply.text)),
            None => std::mem::take(&mut reader.reply)
                .finish()
                .map(|reply| vec![ChatEvent::Finished(Box::new(reply))]),
        }
        .inspect_err(|_| is_over = true)
    });
    events.map_ok(|events| stream::iter(events.into_iter().map(Ok))).try_flatten()
}

/// The received parts of a reply.
#[derive(Default)]
struct Accumulator {
    text: String,
    reasoning: String,
    refusal: String,
    calls: Vec<PartialCall>,
    ids: HashSet<String>,
    finish_reason: Option<FinishReason>,
    /// `true` if the server sent the end of the reply.
    is_complete: bool,
    usage: Usage,
    id: Option<String>,
    model: Option<String>,
    /// Events that are not yet sent.
    events: Vec<ChatEvent>,
}

/// A call with the received part of its arguments.
struct PartialCall {
    /// The number of the call in the stream of the server.
    index: u64,
    /// The id as received. It can be empty or repeated.
    received_id: String,
    call: (String, String),
    arguments: String,
}

impl Accumulator {
    fn push_text(&mut self, text: &str) {
        if !text.is_empty() {
            self.text.push_str(text);
            self.events.push(ChatEvent::TextDelta { text: text.to_owned() });
        }
    }

    fn push_reasoning(&mut self, text: &str) {
        if !text.is_empty() {
            self.reasoning.push_str(text);
            self.events.push(ChatEvent::ReasoningDelta { text: text.to_owned() });
        }
    }

    /// Adds a call. An empty or repeated id is replaced.
    fn start_call(&mut self, index: u64, received_id: &str, name: &str) {
        let is_unique = !received_id.is_empty() && !self.ids.contains(received_id);
        let id = if is_unique { received_id.to_owned() } else { reply::unused_id(&self.ids) };
        self.ids.insert(id.clone());
        let (position, name) = (self.calls.len(), name.to_owned());
        self.events.push(ChatEvent::ToolCallStarted { index: position, id: id.clone(), name: name.clone() });
        let (received_id, arguments) = (received_id.to_owned(), String::new());
        self.calls.push(PartialCall { index, received_id, call: (id, name), arguments });
    }

    /// Returns the position of the last call with the number `index`.
    fn find_call(&self, index: u64) -> Option<usize> {
        self.calls.iter().rposition(|call| call.index == index)
    }

    /// Appends to the arguments of the call with the number `index`. `None` if there is no such
    /// call.
    fn push_arguments(&mut self, index: u64, arguments: &str) -> Option<()> {
        let position = self.find_call(index)?;
        if !arguments.is_empty() {
            self.calls.get_mut(position)?.arguments.push_str(arguments);
            let arguments = arguments.to_owned();
            self.events.push(ChatEvent::ToolCallDelta { index: position, arguments });
        }
        Some(())
    }

    fn finish(self) -> Result<ChatResponse, ModelError> {
        let calls = self
            .calls
            .into_iter()
            .map(|PartialCall { call: (id, name), arguments, .. }| ToolCall::new(id, name, arguments));
        let optional = |text: String| Some(text).filter(|text| !text.is_empty());
        let message = AssistantMessage {
            content: optional(self.text).into_iter().map(Content::text).collect(),
            reasoning: optional(self.reasoning),
            tool_calls: calls.collect(),
            refusal: optional(self.refusal),
            ..AssistantMessage::default()
        };
        let finish_reason = match self.finish_reason {
            Some(reason) if self.is_complete => reason,
            _ => return Err(error::truncated_message("the stream ended before the reply", message)),
        };
        let response = reply::from_parts(message, finish_reason, self.usage)?;
        Ok(ChatResponse { id: self.id, model: self.model, ..response })
    }
}

/// Returns the number at `pointer`, or 0 if it is missing.
fn number(value: &Value, pointer: &str) -> u64 {
    value.pointer(pointer).and_then(Value::as_u64).unwrap_or(0)
}

/// Returns the string at `pointer`, or an empty string if it is missing.
fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
