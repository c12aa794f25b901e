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
    ending::Kind as Ending,
    fold::{Fold, Watch},
};
use crate::{
    failure::Complaint,
    origin::Origin,
    wire::{Loose, WireCall, WireFunction, later, usage_of},
};

/// Under which name they are kept beside a message.
pub(crate) const ADAPTER: &str = "responses";

/// What stands between two texts that are not one: two messages of a reply, two parts of a summary.
pub(crate) const SEPARATOR: &str = "\n\n";

/// A reply of the Responses API: a list of items, from the events of a stream or as a whole.
#[derive(Debug, Default)]
pub(crate) struct ItemsFold {
    fold: Fold,
    items: Vec<Item>,
    /// The part of a summary that was heard last.
    part: Option<(usize, Option<i64>)>,
    origin: Origin,
    /// What the server knew of the conversation before this reply, if it keeps it.
    stored: Option<String>,
}

#[derive(Debug)]
struct Item {
    index: Option<i64>,
    id: Option<String>,
    kind: Kind,
    has_text: bool,
    /// Where its text stands in the whole text.
    start: usize,
    length: usize,
    is_heard: bool,
    /// What is sent of it with the next request, once it is whole: all but what stands in the message.
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

impl ItemsFold {
    /// A reply that will be echoed to its own server only, which keeps it after what it knew before.
    #[cfg(feature = "client")]
    pub(crate) fn of(origin: Origin, stored: Option<String>) -> Self {
        Self { origin, stored, ..Self::default() }
    }

    #[cfg(feature = "client")]
    pub(super) fn so_far(&self) -> &Fold {
        &self.fold
    }

    /// Adds a whole response: the rest of one that was streamed, or one that was not.
    pub(super) fn add_whole(&mut self, response: Value) -> Result<(), ModelError> {
        let status = response.get("status").and_then(Value::as_str).unwrap_or("completed").to_owned();
        self.end(response, &status, &mut None)
    }

    fn name(&mut self, response: &Value) {
        let text = |key| response.get(key)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        self.fold.id = self.fold.id.take().or_else(|| text("id"));
        self.fold.model = text("model").or_else(|| self.fold.model.take());
    }

    fn end(&mut self, mut response: Value, status: &str, watch: &mut Watch<'_>) -> Result<(), ModelError> {
        self.name(&response);
        let mut take = |key| response.get_mut(key).map(Value::take).unwrap_or_default();
        self.fold.usage = later(self.fold.usage, usage_of(take("usage")));
        let (error, details) = (take("error"), take("incomplete_details"));
        if !error.is_null() && error != json!({}) {
            return Err(Complaint::in_band(&error));
        }
        if let Value::Array(items) = take("output") {
            for (place, item) in items.into_iter().enumerate() {
                let index = self.items.get(place).and_then(|item| item.index);
                let place = self.place_of_item(index.or(i64::try_from(place).ok()), &item);
                self.bound()?;
                self.settle(place, item, watch)?;
            }
        }
        let reason = match status {
            "completed" => "stop",
            "incomplete" => match details.get("reason").and_then(Value::as_str).unwrap_or(status) {
                reason if matches!(Ending::of(reason), Ending::Limit | Ending::Filter) => reason,
                // Whatever else it is, the server says that this is not all.
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
        self.fold.ending.take(reason.to_owned());
        Ok(())
    }

    fn place_of_item(&mut self, index: Option<i64>, item: &Value) -> usize {
        let id = item.get("id").and_then(Value::as_str).filter(|id| !id.is_empty());
        self.known(index, id).unwrap_or_else(|| self.push(index, id.map(str::to_owned), Kind::of(item)))
    }

    /// The item of an id, else that of an index. Some servers give an item another id at its end.
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
        let start = self.fold.text.len();
        let (has_text, is_heard) = (false, false);
        self.items.push(Item { index, id, kind, has_text, start, length: 0, is_heard, settled: None });
        self.items.len() - 1
    }

    fn add_text(&mut self, place: usize, text: String, watch: &mut Watch<'_>) -> Result<(), ModelError> {
        let Some(item) = self.items.get_mut(place).filter(|_| !text.is_empty()) else { return Ok(()) };
        if !replace(&mut item.has_text, true) {
            if !self.fold.text.is_empty() {
                self.fold.add_text(SEPARATOR.to_owned(), watch)?;
            }
            item.start = self.fold.text.len();
        }
        let before = self.fold.text.len();
        self.fold.add_text(text, watch)?;
        item.length += self.fold.text.len() - before;
        Ok(())
    }

    fn add_reasoning(
        &mut self,
        place: usize,
        part: Option<i64>,
        text: String,
        watch: &mut Watch<'_>,
    ) -> Result<(), ModelError> {
        let Some(item) = self.items.get_mut(place).filter(|_| !text.is_empty()) else { return Ok(()) };
        item.is_heard = true;
        let before = self.part.replace((place, part));
        if before.is_some_and(|before| before != (place, part)) {
            self.fold.add_reasoning(SEPARATOR.to_owned(), watch)?;
        }
        self.fold.add_reasoning(text, watch)
    }

    /// Takes an item as its server says that it is in the end, and tells what was not heard of it.
    fn settle(&mut self, place: usize, item: Value, watch: &mut Watch<'_>) -> Result<(), ModelError> {
        let known = self.items.get(place);
        if !item.is_object() || known.is_none_or(|known| known.settled.is_some()) {
            return Ok(());
        }
        let settled = match Kind::of(&item) {
            Kind::Message => self.settle_message(place, &item, watch)?,
            Kind::Call => {
                let arguments = item.get("arguments").cloned().map_or(Loose::Absent, Loose::from);
                let whole = call(place, id_of_call(&item), item.get("name"), arguments);
                let size = self.fold.calls.settle(whole, watch)?;
                self.fold.grow(size)?;
                json!({"type": "function_call"})
            }
            kind => {
                if kind == Kind::Reasoning && known.is_some_and(|known| !known.is_heard) {
                    for (part, text) in (0..).zip(thoughts(&item)) {
                        self.add_reasoning(place, Some(part), text, watch)?;
                    }
                }
                self.fold.grow(item.to_string().len())?;
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
        watch: &mut Watch<'_>,
    ) -> Result<Value, ModelError> {
        let (text, refusal) = said(item);
        let (start, length, is_heard) =
            self.items.get(place).map_or((0, 0, true), |item| (item.start, item.length, item.is_heard));
        // A character of which half was heard is there as a whole now.
        self.fold.forget_half();
        let heard = self.fold.text.get(start..start.saturating_add(length)).unwrap_or_default();
        // A text that is another one than what was heard cannot be taken back.
        let rest = text.strip_prefix(heard).unwrap_or_default().to_owned();
        self.add_text(place, rest, watch)?;
        if !is_heard {
            self.fold.add_refusal(refusal)?;
        }
        let phase = item.get("phase").filter(|phase| !phase.is_null());
        Ok(match phase {
            Some(phase) => json!({"type": "message", "phase": phase}),
            None => json!({"type": "message"}),
        })
    }

    pub(super) fn finish(mut self, watch: &mut Watch<'_>) -> Result<ChatResponse, ModelError> {
        self.fold.end_texts(watch)?;
        self.with_items().finish()
    }

    #[cfg(feature = "client")]
    pub(super) fn into_truncated(mut self, reason: String) -> ModelError {
        self.cut(reason)
    }

    /// Ends a reply that is not whole. It is echoed to nobody.
    fn cut(&mut self, reason: String) -> ModelError {
        // What is too long by what was kept back is left as it is.
        let _ = self.fold.end_texts(&mut None);
        std::mem::take(&mut self.fold).into_truncated(reason)
    }

    /// Keeps beside the message what the message does not say: its items in their order, and what the server keeps.
    fn with_items(self) -> Fold {
        let Self { mut fold, items, origin, stored, .. } = self;
        let mut data = Map::new();
        // A message says that there is text and then calls: only what is otherwise is kept.
        let is_told = |(place, item): (usize, &Item)| match item.kind {
            Kind::Message => place == 0 && item.settled.as_ref().is_none_or(|it| it.get("phase").is_none()),
            kind => kind == Kind::Call,
        };
        if !items.iter().enumerate().all(is_told) {
            let items = (0..).zip(&items).filter_map(|(place, item)| item.marker(fold.calls.id_of(place)));
            data.insert("items".to_owned(), items.collect());
        }
        if let (Some(stored), Some(id)) = (stored, &fold.id) {
            let calls = (0..).zip(&items).filter_map(|(place, _)| fold.calls.id_of(place));
            let calls: Value = calls.map(Value::from).collect();
            data.insert("stored".to_owned(), json!({"id": id, "after": stored, "calls": calls}));
        }
        if !data.is_empty() {
            fold.provider_data.insert(ADAPTER, origin.mark(data));
        }
        fold
    }
}

impl Item {
    /// What stands for it beside the message: a text by its length, a call by its id, the rest as it came.
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

fn call(place: usize, id: Option<&str>, name: Option<&Value>, arguments: Loose) -> WireCall {
    let text = |text: &str| Loose::Text(text.to_owned());
    let name = name.and_then(Value::as_str).map_or(Loose::Absent, text);
    WireCall {
        index: Loose::Number(place.into()),
        id: id.map_or(Loose::Absent, text),
        extra_content: None,
        function: Some(WireFunction { name, arguments }),
    }
}

fn id_of_call(item: &Value) -> Option<&str> {
    let text = |key| item.get(key)?.as_str().filter(|id: &&str| !id.is_empty());
    text("call_id").or_else(|| text("id"))
}

/// The text of a message and what it declines by.
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

/// What the model thought, as far as it says: the parts of a summary, or else of the reasoning itself.
fn thoughts(item: &Value) -> Vec<String> {
    let parts = |key| {
        let parts = item.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let texts = parts.iter().filter_map(|part| part.get("text")?.as_str().map(str::to_owned));
        texts.collect::<Vec<_>>()
    };
    let summary = parts("summary");
    if summary.is_empty() { parts("content") } else { summary }
}

/// An item as it is sent back: its status belongs to the reply.
fn without_status(mut item: Value) -> Value {
    if let Value::Object(fields) = &mut item {
        fields.shift_remove("status");
    }
    item
}
