//! The items of a response as they come, in the events of a stream.

use haft_core::model::ModelError;
use serde_json::Value;

use super::{ItemsFold, Kind, call, id_of_call};
use crate::{
    failure::Complaint,
    reply::fold::Watch,
    wire::{Event, Loose},
};

/// The events that end a response.
const ENDS: [&str; 4] = ["completed", "incomplete", "failed", "cancelled"];

impl ItemsFold {
    /// Adds an event. What is not known of them changes nothing.
    pub(in crate::reply) fn add(
        &mut self,
        mut event: Event,
        watch: &mut Watch<'_>,
    ) -> Result<(), ModelError> {
        self.fold.expect_halves(event.is_mended);
        self.bound()?;
        let kind = std::mem::take(&mut event.kind).into_text().unwrap_or_default();
        match kind.as_str() {
            "response.output_item.added" => self.begin(&event, watch),
            "response.output_text.delta" => {
                let place = self.place_of(&event, Kind::Message);
                self.add_text(place, event.delta.into_text().unwrap_or_default(), watch)
            }
            "response.refusal.delta" => {
                let place = self.place_of(&event, Kind::Message);
                self.add_refusal(place, event.delta.into_text().unwrap_or_default())
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                let place = self.place_of(&event, Kind::Reasoning);
                let part = event.summary_index.to_number().or(event.content_index.to_number());
                self.add_reasoning(place, part, event.delta.into_text().unwrap_or_default(), watch)
            }
            "response.function_call_arguments.delta" => {
                let place = self.place_of(&event, Kind::Call);
                self.fold.add_call(call(place, None, None, event.delta), false, watch)
            }
            "response.output_item.done" => {
                let item = event.item.take().unwrap_or_default();
                let place = self.place_of_item(event.output_index.to_number(), &item);
                self.settle(place, item, watch)
            }
            "error" | "response.error" => Err(Complaint::in_band(&event.into_error())),
            _ => self.add_response(&kind, event, watch),
        }
    }

    /// Adds what an event says of the response as a whole: what it is called, and in the end how it went.
    fn add_response(&mut self, kind: &str, event: Event, watch: &mut Watch<'_>) -> Result<(), ModelError> {
        if kind.is_empty() && event.is_complaint() {
            return Err(Complaint::in_band(&event.into_error()));
        }
        let Some(response) = event.response else { return Ok(()) };
        let named = kind.strip_prefix("response.").unwrap_or_default();
        let status = match response.get("status").and_then(Value::as_str) {
            // Some servers end with the response as it began.
            Some("in_progress" | "queued") if ENDS.contains(&named) => named,
            Some(status) => status,
            None => named,
        };
        let status = status.to_owned();
        match status.as_str() {
            "in_progress" | "queued" | "created" => {
                self.name(&response);
                Ok(())
            }
            _ => self.end(response, &status, watch),
        }
    }

    fn begin(&mut self, event: &Event, watch: &mut Watch<'_>) -> Result<(), ModelError> {
        let Some(item) = &event.item else { return Ok(()) };
        let index = event.output_index.to_number();
        let id = item.get("id").and_then(Value::as_str).filter(|id| !id.is_empty());
        // Some servers count every item as number 0: after one that is done, the next one begins.
        let open = self
            .known(index, id)
            .filter(|place| self.items.get(*place).is_some_and(|it| it.settled.is_none()));
        let place = open.unwrap_or_else(|| self.push(index, id.map(str::to_owned), Kind::of(item)));
        if Kind::of(item) != Kind::Call {
            return Ok(());
        }
        // Its arguments come by themselves, and whole with the item that is done.
        self.fold.add_call(call(place, id_of_call(item), item.get("name"), Loose::Absent), false, watch)
    }

    /// Where the item stands that an event is about. It may be the first that is heard of it.
    fn place_of(&mut self, event: &Event, kind: Kind) -> usize {
        let (index, id) = (event.output_index.to_number(), event.item_id.as_text());
        let is_named = index.is_some() || id.is_some();
        let last = || self.items.iter().rposition(|item| item.kind == kind);
        let known = if is_named { self.known(index, id) } else { last() };
        let id = id.map(str::to_owned);
        known.unwrap_or_else(|| self.push(index, id, kind))
    }

    fn add_refusal(&mut self, place: usize, text: String) -> Result<(), ModelError> {
        if let Some(item) = self.items.get_mut(place) {
            item.is_heard = true;
        }
        self.fold.add_refusal(text)
    }
}
