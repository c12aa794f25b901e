#[cfg(feature = "client")]
mod events;

use std::mem::replace;

use haft_core::{
    limits::REPLY_ITEMS,
    model::{ChatResponse, ModelError},
};
use serde_json::Map;
use serde_json::{Value, json};

use super::{
    accumulator::{Accumulator, EventSink},
    finish_state::Kind as FinishKind,
};
use crate::{
    api_error::ApiError,
    origin::Origin,
    wire::{LenientString, WireCall, WireFunction, later, usage_of},
};

/// The key in `provider_data`.
pub(crate) const ADAPTER: &str = "responses";

/// Separator of two messages in a reply, and of two parts of a summary.
pub(crate) const SEPARATOR: &str = "\n\n";

/// Builds a reply of the Responses API, which is a list of items, from events or from a whole body.
#[derive(Debug, Default)]
pub(crate) struct ResponsesAccumulator {
    accumulator: Accumulator,
    items: Vec<Item>,
    /// The part of a summary that the last delta belonged to.
    part: Option<(usize, Option<i64>)>,
    origin: Origin,
    /// The response that this one continues, if the server stores them.
    stored: Option<String>,
}

#[derive(Debug)]
struct Item {
    index: Option<i64>,
    id: Option<String>,
    kind: Kind,
    has_text: bool,
    /// Start of its text in the text of the reply.
    start: usize,
    length: usize,
    is_heard: bool,
    /// The final item without the data that the message has. Sent back with the next request.
    settled: Option<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Message,
    Call,
    Reasoning,
    Other,
}

impl Kind {
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
    /// A reply that will be echoed to its own server only, which keeps it after what it knew
    /// before.
    #[cfg(feature = "client")]
    pub(crate) fn new(origin: Origin, stored: Option<String>) -> Self {
        Self { origin, stored, ..Self::default() }
    }

    #[cfg(feature = "client")]
    pub(super) fn so_far(&self) -> &Accumulator {
        &self.accumulator
    }

    /// Adds a whole response: the rest of one that was streamed, or one that was not.
    pub(super) fn add_whole(&mut self, response: Value) -> Result<(), ModelError> {
        let status = response.get("status").and_then(Value::as_str).unwrap_or("completed").to_owned();
        self.end(response, &status, &mut None)
    }

    fn name(&mut self, response: &Value) {
        let text = |key| response.get(key)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        self.accumulator.id = self.accumulator.id.take().or_else(|| text("id"));
        self.accumulator.model = text("model").or_else(|| self.accumulator.model.take());
    }

    fn end(&mut self, mut response: Value, status: &str, sink: &mut EventSink<'_>) -> Result<(), ModelError> {
        self.name(&response);
        let mut take = |key| response.get_mut(key).map(Value::take).unwrap_or_default();
        self.accumulator.usage = later(self.accumulator.usage, usage_of(take("usage")));
        let (error, details) = (take("error"), take("incomplete_details"));
        if !error.is_null() && error != json!({}) {
            return Err(ApiError::in_band(&error));
        }
        if let Value::Array(items) = take("output") {
            for (place, item) in items.into_iter().enumerate() {
                let index = self.items.get(place).and_then(|item| item.index);
                let place = self.place_of_item(index.or(i64::try_from(place).ok()), &item);
                self.bound()?;
                self.settle(place, item, sink)?;
            }
        }
        let reason = match status {
            "completed" => "stop",
            "incomplete" => match details.get("reason").and_then(Value::as_str).unwrap_or(status) {
                reason if matches!(FinishKind::of(reason), FinishKind::Limit | FinishKind::Filter) => reason,
                // Incomplete for an unknown reason.
                reason => {
                    let reason = format!("the server says that it is incomplete ({reason})");
                    return Err(self.cut(reason));
                }
            },
            "failed" => "error",
            "cancelled" | "in_progress" | "queued" => {
                let reason = format!("the server says that it is {status}");
                return Err(self.cut(reason));
            }
            other => other,
        };
        self.accumulator.finish_state.take(reason.to_owned());
        Ok(())
    }

    fn place_of_item(&mut self, index: Option<i64>, item: &Value) -> usize {
        let id = item.get("id").and_then(Value::as_str).filter(|id| !id.is_empty());
        self.known(index, id).unwrap_or_else(|| self.push(index, id.map(str::to_owned), Kind::of(item)))
    }

    /// The item with an id, else with an index. Some servers change the id at the end of an item.
    fn known(&self, index: Option<i64>, id: Option<&str>) -> Option<usize> {
        let by_id = || self.items.iter().position(|item| id.is_some() && item.id.as_deref() == id);
        let by_index = || self.items.iter().rposition(|item| index.is_some() && item.index == index);
        by_id().or_else(by_index)
    }

    fn bound(&self) -> Result<(), ModelError> {
        if self.items.len() <= REPLY_ITEMS {
            return Ok(());
        }
        Err(ModelError::InvalidResponse(format!("it has more than {REPLY_ITEMS} items")))
    }

    fn push(&mut self, index: Option<i64>, id: Option<String>, kind: Kind) -> usize {
        let start = self.accumulator.text.len();
        let (has_text, is_heard) = (false, false);
        self.items.push(Item { index, id, kind, has_text, start, length: 0, is_heard, settled: None });
        self.items.len() - 1
    }

    fn add_text(&mut self, place: usize, text: String, sink: &mut EventSink<'_>) -> Result<(), ModelError> {
        let Some(item) = self.items.get_mut(place).filter(|_| !text.is_empty()) else { return Ok(()) };
        if !replace(&mut item.has_text, true) {
            if !self.accumulator.text.is_empty() {
                self.accumulator.add_text(SEPARATOR.to_owned(), sink)?;
            }
            item.start = self.accumulator.text.len();
        }
        let before = self.accumulator.text.len();
        self.accumulator.add_text(text, sink)?;
        item.length += self.accumulator.text.len() - before;
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
        item.is_heard = true;
        let before = self.part.replace((place, part));
        if before.is_some_and(|before| before != (place, part)) {
            self.accumulator.add_reasoning(SEPARATOR.to_owned(), sink)?;
        }
        self.accumulator.add_reasoning(text, sink)
    }

    /// Takes the final form of an item and emits what no delta contained.
    fn settle(&mut self, place: usize, item: Value, sink: &mut EventSink<'_>) -> Result<(), ModelError> {
        let known = self.items.get(place);
        if !item.is_object() || known.is_none_or(|known| known.settled.is_some()) {
            return Ok(());
        }
        let settled = match Kind::of(&item) {
            Kind::Message => self.settle_message(place, &item, sink)?,
            Kind::Call => {
                let arguments =
                    item.get("arguments").cloned().map_or(LenientString::Absent, LenientString::from);
                let whole = call(place, id_of_call(&item), item.get("name"), arguments);
                let size = self.accumulator.calls.settle(whole, sink)?;
                self.accumulator.grow(size)?;
                json!({"type": "function_call"})
            }
            kind => {
                if kind == Kind::Reasoning && known.is_some_and(|known| !known.is_heard) {
                    for (part, text) in (0..).zip(thoughts(&item)) {
                        self.add_reasoning(place, Some(part), text, sink)?;
                    }
                }
                self.accumulator.grow(item.to_string().len())?;
                without_status(item)
            }
        };
        if let Some(known) = self.items.get_mut(place) {
            known.settled = Some(settled);
        }
        Ok(())
    }

    fn settle_message(
        &mut self,
        place: usize,
        item: &Value,
        sink: &mut EventSink<'_>,
    ) -> Result<Value, ModelError> {
        let (text, refusal) = said(item);
        let (start, length, is_heard) =
            self.items.get(place).map_or((0, 0, true), |item| (item.start, item.length, item.is_heard));
        // The final text contains a held surrogate, too.
        self.accumulator.reset_joiner();
        let heard = self.accumulator.text.get(start..start.saturating_add(length)).unwrap_or_default();
        // Emitted deltas cannot be taken back if the final text differs.
        let rest = text.strip_prefix(heard).unwrap_or_default().to_owned();
        self.add_text(place, rest, sink)?;
        if !is_heard {
            self.accumulator.add_refusal(refusal)?;
        }
        let phase = item.get("phase").filter(|phase| !phase.is_null());
        Ok(match phase {
            Some(phase) => json!({"type": "message", "phase": phase}),
            None => json!({"type": "message"}),
        })
    }

    pub(super) fn finish(mut self, sink: &mut EventSink<'_>) -> Result<ChatResponse, ModelError> {
        self.accumulator.end_texts(sink)?;
        self.with_items().finish()
    }

    #[cfg(feature = "client")]
    pub(super) fn into_truncated(mut self, reason: String) -> ModelError {
        self.cut(reason)
    }

    /// The error for a reply that ended early. Its items are not sent back.
    fn cut(&mut self, reason: String) -> ModelError {
        // The size limit does not matter any more.
        let _ = self.accumulator.end_texts(&mut None);
        std::mem::take(&mut self.accumulator).into_truncated(reason)
    }

    /// Stores in `provider_data` what the message lacks: the items in order, and the id of a stored
    /// response.
    fn with_items(self) -> Accumulator {
        let Self { mut accumulator, items, origin, stored, .. } = self;
        let mut data = Map::new();
        // The message implies text and then calls. Only another order is stored.
        let is_told = |(place, item): (usize, &Item)| match item.kind {
            Kind::Message => place == 0 && item.settled.as_ref().is_none_or(|it| it.get("phase").is_none()),
            kind => kind == Kind::Call,
        };
        if !items.iter().enumerate().all(is_told) {
            let items =
                (0..).zip(&items).filter_map(|(place, item)| item.marker(accumulator.calls.id_of(place)));
            data.insert("items".to_owned(), items.collect());
        }
        if let (Some(stored), Some(id)) = (stored, &accumulator.id) {
            let calls = (0..).zip(&items).filter_map(|(place, _)| accumulator.calls.id_of(place));
            let calls: Value = calls.map(Value::from).collect();
            data.insert("stored".to_owned(), json!({"id": id, "after": stored, "calls": calls}));
        }
        if !data.is_empty() {
            accumulator.provider_data.insert(ADAPTER, origin.mark(data));
        }
        accumulator
    }
}

impl Item {
    /// The item in `provider_data`: a text as its length, a call as its id, anything else
    /// unchanged.
    fn marker(&self, call: Option<&str>) -> Option<Value> {
        let mut marker = self.settled.clone()?;
        let (key, value) = match self.kind {
            Kind::Message => ("length", self.length.into()),
            Kind::Call => ("call_id", call?.into()),
            Kind::Reasoning | Kind::Other => return Some(marker),
        };
        marker.as_object_mut()?.insert(key.to_owned(), value);
        Some(marker)
    }
}

fn call(place: usize, id: Option<&str>, name: Option<&Value>, arguments: LenientString) -> WireCall {
    let text = |text: &str| LenientString::Text(text.to_owned());
    let name = name.and_then(Value::as_str).map_or(LenientString::Absent, text);
    WireCall {
        index: LenientString::Number(place.into()),
        id: id.map_or(LenientString::Absent, text),
        extra_content: None,
        function: Some(WireFunction { name, arguments }),
    }
}

fn id_of_call(item: &Value) -> Option<&str> {
    let text = |key| item.get(key)?.as_str().filter(|id: &&str| !id.is_empty());
    text("call_id").or_else(|| text("id"))
}

/// Text and refusal of a message.
fn said(item: &Value) -> (String, String) {
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

/// The parts of the reasoning summary, or else of the reasoning.
fn thoughts(item: &Value) -> Vec<String> {
    let parts = |key| {
        let parts = item.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let texts = parts.iter().filter_map(|part| part.get("text")?.as_str().map(str::to_owned));
        texts.collect::<Vec<_>>()
    };
    let summary = parts("summary");
    if summary.is_empty() { parts("content") } else { summary }
}

/// Removes the `status`, which is not sent back.
fn without_status(mut item: Value) -> Value {
    if let Value::Object(fields) = &mut item {
        fields.shift_remove("status");
    }
    item
}
