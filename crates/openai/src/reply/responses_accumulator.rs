#[cfg(feature = "client")]
mod events;
mod hosted;

use std::mem::replace;

use haft_core::{
    limits::REPLY_CALLS,
    message::{AssistantMessage, HostedCall},
    model::{
        CallPiece, ChatResponse, ModelError,
        adapter::{EventSink, FinishKind, Origin, ReplyAccumulator, in_band_error},
    },
};
use serde_json::{Map, Value, json};

use crate::wire::{LenientValue, merge_usage, parse_usage};

/// The key under which the Responses adapter stores provider data in a message.
pub(crate) const RESPONSES_DATA_KEY: &str = "responses";

/// The separator between two messages of a reply, and between two parts of its reasoning.
pub(crate) const TEXT_SEPARATOR: &str = "\n\n";

/// An accumulator that builds a Responses reply (a list of items) from the events of a stream or
/// from a whole body.
#[derive(Debug, Default)]
pub(crate) struct ResponsesAccumulator {
    accumulator: ReplyAccumulator,
    items: Vec<Item>,
    /// The item position and the part index of the last reasoning delta. A separator precedes a
    /// delta of a different part.
    last_reasoning_part: Option<(usize, Option<i64>)>,
    origin: Origin,
    /// The digest of the messages that precede this response in the conversation. `None` if later
    /// requests do not use `previous_response_id`.
    preceding_digest: Option<String>,
}

#[derive(Debug)]
struct Item {
    index: Option<i64>,
    id: Option<String>,
    kind: ItemKind,
    has_text: bool,
    /// The byte offset in the text of the reply at which the item's text begins.
    text_start: usize,
    /// The length of the item's text, in bytes.
    text_length: usize,
    /// `true` if a reasoning or refusal delta of the item was received.
    has_deltas: bool,
    /// The final form of the item, which is sent back with the next request. Text and arguments are
    /// removed, because they are part of the message. `None` until the item is complete.
    final_item: Option<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ItemKind {
    Message,
    Call,
    Reasoning,
    Other,
}

impl ItemKind {
    fn of(item: &Value) -> Self {
        match item.get("type").and_then(Value::as_str) {
            Some("message") => Self::Message,
            Some("function_call") => Self::Call,
            Some("reasoning") => Self::Reasoning,
            _ => Self::Other,
        }
    }
}

impl ResponsesAccumulator {
    /// Creates an accumulator. The origin in `encoding`, the options of the requests, is stored with
    /// the provider data of the message.
    /// `preceding_digest` is the digest of the preceding messages, if later requests use
    /// `previous_response_id`.
    #[cfg(feature = "client")]
    pub(crate) fn new(encoding: &crate::format::EncodingOptions, preceding_digest: Option<String>) -> Self {
        let accumulator = ReplyAccumulator::new(encoding.call_ids.clone());
        Self { accumulator, origin: encoding.origin.clone(), preceding_digest, ..Self::default() }
    }

    #[cfg(feature = "client")]
    pub(super) fn inner(&self) -> &ReplyAccumulator {
        &self.accumulator
    }

    /// Adds `response`, the body of a non-streamed response.
    pub(super) fn add_response_object(&mut self, response: Value) -> Result<(), ModelError> {
        let status = response.get("status").and_then(Value::as_str).unwrap_or("completed").to_owned();
        self.add_final_response(response, &status, &mut None)
    }

    fn set_id_and_model(&mut self, response: &Value) {
        let text = |key| response.get(key)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        self.accumulator.id = self.accumulator.id.take().or_else(|| text("id"));
        self.accumulator.model = text("model").or_else(|| self.accumulator.model.take());
    }

    fn add_final_response(
        &mut self,
        mut response: Value,
        status: &str,
        sink: &mut EventSink<'_>,
    ) -> Result<(), ModelError> {
        self.set_id_and_model(&response);
        let mut take = |key| response.get_mut(key).map(Value::take).unwrap_or_default();
        self.accumulator.usage = merge_usage(self.accumulator.usage, parse_usage(take("usage")));
        let (error, details) = (take("error"), take("incomplete_details"));
        if !error.is_null() && error != json!({}) {
            return Err(in_band_error(&error));
        }
        if let Value::Array(items) = take("output") {
            for (place, item) in items.into_iter().enumerate() {
                let index = self.items.get(place).and_then(|item| item.index);
                let place = self.find_or_add_item(index.or(i64::try_from(place).ok()), &item);
                self.check_item_limit()?;
                self.finish_item(place, item, sink)?;
            }
        }
        let reason = match status {
            "completed" => "stop",
            "incomplete" => match details.get("reason").and_then(Value::as_str).unwrap_or(status) {
                reason if matches!(FinishKind::of(reason), FinishKind::Limit | FinishKind::Filter) => reason,
                // If the reason is neither a limit nor a filter, the reply counts as truncated.
                reason => {
                    let reason = format!("the server reports it as incomplete ({reason})");
                    return Err(self.truncated(reason));
                }
            },
            "failed" => "error",
            "cancelled" | "in_progress" | "queued" => {
                let reason = format!("the server reports it as {status}");
                return Err(self.truncated(reason));
            }
            other => other,
        };
        self.accumulator.finish_state.set_reason(reason.to_owned());
        Ok(())
    }

    fn find_or_add_item(&mut self, index: Option<i64>, item: &Value) -> usize {
        let id = item.get("id").and_then(Value::as_str).filter(|id| !id.is_empty());
        self.find_item(index, id)
            .unwrap_or_else(|| self.add_item(index, id.map(str::to_owned), ItemKind::of(item)))
    }

    /// Returns the position of the item with the given id, or else with the given index. `None` if
    /// there is no such item. The index is needed because some servers change the id at the end of
    /// an item.
    fn find_item(&self, index: Option<i64>, id: Option<&str>) -> Option<usize> {
        let by_id = || self.items.iter().position(|item| id.is_some() && item.id.as_deref() == id);
        let by_index = || self.items.iter().rposition(|item| index.is_some() && item.index == index);
        by_id().or_else(by_index)
    }

    fn check_item_limit(&self) -> Result<(), ModelError> {
        if self.items.len() <= REPLY_CALLS {
            return Ok(());
        }
        Err(ModelError::InvalidResponse(format!("it has more than {REPLY_CALLS} items")))
    }

    fn add_item(&mut self, index: Option<i64>, id: Option<String>, kind: ItemKind) -> usize {
        let start = self.accumulator.text().len();
        let (has_text, has_deltas) = (false, false);
        self.items.push(Item {
            index,
            id,
            kind,
            has_text,
            text_start: start,
            text_length: 0,
            has_deltas,
            final_item: None,
        });
        self.items.len() - 1
    }

    fn add_text(&mut self, place: usize, text: String, sink: &mut EventSink<'_>) -> Result<(), ModelError> {
        let Some(item) = self.items.get_mut(place).filter(|_| !text.is_empty()) else { return Ok(()) };
        if !replace(&mut item.has_text, true) {
            if !self.accumulator.text().is_empty() {
                self.accumulator.add_text(TEXT_SEPARATOR.to_owned(), sink)?;
            }
            item.text_start = self.accumulator.text().len();
        }
        let before = self.accumulator.text().len();
        self.accumulator.add_text(text, sink)?;
        item.text_length += self.accumulator.text().len() - before;
        Ok(())
    }

    fn add_reasoning(
        &mut self,
        place: usize,
        part: Option<i64>,
        text: String,
        sink: &mut EventSink<'_>,
    ) -> Result<(), ModelError> {
        let Some(item) = self.items.get_mut(place).filter(|_| !text.is_empty()) else { return Ok(()) };
        item.has_deltas = true;
        let before = self.last_reasoning_part.replace((place, part));
        if before.is_some_and(|before| before != (place, part)) {
            self.accumulator.add_reasoning(TEXT_SEPARATOR.to_owned(), sink)?;
        }
        self.accumulator.add_reasoning(text, sink)
    }

    /// Stores `item`, the final form of the item at `place`. Emits the text and arguments that the
    /// deltas did not contain.
    fn finish_item(&mut self, place: usize, item: Value, sink: &mut EventSink<'_>) -> Result<(), ModelError> {
        let known = self.items.get(place);
        if !item.is_object() || known.is_none_or(|known| known.final_item.is_some()) {
            return Ok(());
        }
        let final_item = match ItemKind::of(&item) {
            ItemKind::Message => self.finish_message(place, &item, sink)?,
            ItemKind::Call => {
                let arguments =
                    item.get("arguments").cloned().map_or(LenientValue::Absent, LenientValue::from);
                let whole = call_piece(place, id_of_call(&item), item.get("name"), arguments);
                let size = self.accumulator.calls.set_final(whole, sink)?;
                self.accumulator.try_add_size(size)?;
                json!({"type": "function_call"})
            }
            kind => {
                if kind == ItemKind::Reasoning && known.is_some_and(|known| !known.has_deltas) {
                    for (part, text) in (0..).zip(reasoning_parts(&item)) {
                        self.add_reasoning(place, Some(part), text, sink)?;
                    }
                }
                self.accumulator.try_add_size(item.to_string().len())?;
                if let Some(call) = hosted::hosted_call(&item) {
                    self.accumulator.finish_hosted_call(call, sink)?;
                }
                if kind == ItemKind::Reasoning { without_status(item) } else { item }
            }
        };
        if let Some(known) = self.items.get_mut(place) {
            known.final_item = Some(final_item);
        }
        Ok(())
    }

    fn finish_message(
        &mut self,
        place: usize,
        item: &Value,
        sink: &mut EventSink<'_>,
    ) -> Result<Value, ModelError> {
        let (text, refusal) = text_and_refusal(item);
        let (start, length, has_deltas) = self
            .items
            .get(place)
            .map_or((0, 0, true), |item| (item.text_start, item.text_length, item.has_deltas));
        // The final text repeats the surrogate that was held back, so the surrogate is dropped.
        self.accumulator.reset_text_joiner();
        let received = self.accumulator.text().get(start..start.saturating_add(length)).unwrap_or_default();
        // If the final text differs from the deltas, the difference is ignored, because emitted
        // deltas cannot be taken back.
        let rest = text.strip_prefix(received).unwrap_or_default().to_owned();
        self.add_text(place, rest, sink)?;
        if !has_deltas {
            self.accumulator.add_refusal(refusal)?;
        }
        let start = self.items.get(place).map_or(0, |item| item.text_start);
        hosted::citations(item, start).into_iter().try_for_each(|it| self.accumulator.add_citation(it))?;
        let phase = item.get("phase").filter(|phase| !phase.is_null());
        Ok(match phase {
            Some(phase) => json!({"type": "message", "phase": phase}),
            None => json!({"type": "message"}),
        })
    }

    pub(super) fn finish(mut self, sink: &mut EventSink<'_>) -> Result<ChatResponse, ModelError> {
        self.accumulator.flush(sink)?;
        self.into_accumulator().finish()
    }

    /// Returns the message received so far, with its provider data. Unlike a complete reply, it may
    /// be empty.
    pub(super) fn into_message(mut self) -> Result<AssistantMessage, ModelError> {
        self.accumulator.flush(&mut None)?;
        Ok(self.into_accumulator().into_message())
    }

    #[cfg(feature = "client")]
    pub(super) fn into_truncated(mut self, reason: String) -> ModelError {
        self.truncated(reason)
    }

    /// Returns the error for a truncated reply. Its partial message has no provider data, unlike
    /// the message of a complete reply, so the items of a truncated reply are never sent back.
    fn truncated(&mut self, reason: String) -> ModelError {
        // An error about the size limit is ignored, because the reply has failed already.
        let _ = self.accumulator.flush(&mut None);
        std::mem::take(&mut self.accumulator).into_truncated(reason)
    }

    /// Returns the accumulator, with provider data for everything that has no field in the message:
    /// the order of the items, opaque items such as encrypted reasoning, and the id of a stored
    /// response.
    fn into_accumulator(self) -> ReplyAccumulator {
        let Self { mut accumulator, items, origin, preceding_digest, .. } = self;
        let mut data = Map::new();
        // The message itself implies text followed by calls. The items are stored only if their
        // order differs, or if an item has other data, such as a `phase`.
        let is_implied = |(place, item): (usize, &Item)| match item.kind {
            ItemKind::Message => {
                place == 0 && item.final_item.as_ref().is_none_or(|it| it.get("phase").is_none())
            }
            kind => kind == ItemKind::Call,
        };
        if !items.iter().enumerate().all(is_implied) {
            let items =
                (0..).zip(&items).filter_map(|(place, item)| item.marker(accumulator.calls.id_of(place)));
            data.insert("items".to_owned(), items.collect());
        }
        if let (Some(digest), Some(id)) = (preceding_digest, &accumulator.id) {
            let calls = (0..).zip(&items).filter_map(|(place, _)| accumulator.calls.id_of(place));
            let calls: Value = calls.map(Value::from).collect();
            data.insert("stored".to_owned(), json!({"id": id, "after": digest, "calls": calls}));
        }
        // OpenAI bills the searches, and does not report their number.
        let is_billed = |call: &&HostedCall| matches!(call.tool.as_str(), "web_search" | "file_search");
        let billed = accumulator.hosted_calls().iter().filter(is_billed).count();
        if let Some(usage) = &mut accumulator.usage {
            usage.hosted_tool_requests = u64::try_from(billed).unwrap_or(u64::MAX);
        }
        if !data.is_empty() {
            accumulator.provider_data.insert(RESPONSES_DATA_KEY, origin.add_to(data));
        }
        accumulator
    }
}

impl Item {
    /// Returns the JSON value that represents the item in `provider_data`. A message is stored with
    /// the length of its text, a call with the call id `call`, and any other item unchanged. `None`
    /// if the item is not complete.
    fn marker(&self, call: Option<&str>) -> Option<Value> {
        let mut marker = self.final_item.clone()?;
        let (key, value) = match self.kind {
            ItemKind::Message => ("length", self.text_length.into()),
            ItemKind::Call => ("call_id", call?.into()),
            ItemKind::Reasoning | ItemKind::Other => return Some(marker),
        };
        marker.as_object_mut()?.insert(key.to_owned(), value);
        Some(marker)
    }
}

fn call_piece(place: usize, id: Option<&str>, name: Option<&Value>, arguments: LenientValue) -> CallPiece {
    CallPiece {
        index: place.try_into().ok(),
        id: id.map(str::to_owned),
        name: name.and_then(Value::as_str).filter(|name| !name.is_empty()).map(str::to_owned),
        arguments: arguments.into_text().unwrap_or_default(),
    }
}

fn id_of_call(item: &Value) -> Option<&str> {
    let text = |key| item.get(key)?.as_str().filter(|id: &&str| !id.is_empty());
    text("call_id").or_else(|| text("id"))
}

/// Returns the text and the refusal of the message item `item`.
fn text_and_refusal(item: &Value) -> (String, String) {
    let (mut text, mut refusal) = (String::new(), String::new());
    match item.get("content") {
        Some(Value::String(whole)) => text.push_str(whole),
        Some(Value::Array(parts)) => {
            for part in parts {
                let word = |key| part.get(key).and_then(Value::as_str).unwrap_or_default();
                text.push_str(part.as_str().unwrap_or_else(|| word("text")));
                refusal.push_str(word("refusal"));
            }
        }
        _ => {}
    }
    (text, refusal)
}

/// Returns the parts of the summary in the reasoning item `item`, or the parts of the full
/// reasoning if there is no summary.
fn reasoning_parts(item: &Value) -> Vec<String> {
    let parts = |key| {
        let parts = item.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let texts = parts.iter().filter_map(|part| part.get("text")?.as_str().map(str::to_owned));
        texts.collect::<Vec<_>>()
    };
    let summary = parts("summary");
    if summary.is_empty() { parts("content") } else { summary }
}

/// Removes the field `status` from `item`, because it must not be sent back.
fn without_status(mut item: Value) -> Value {
    if let Value::Object(fields) = &mut item {
        fields.shift_remove("status");
    }
    item
}
