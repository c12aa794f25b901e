//! Accumulation of response items from stream events.

use haft_core::{
    message::HostedCall,
    model::{
        ModelError,
        adapter::{EventSink, PieceKind, in_band_error},
    },
};
use serde_json::Value;

use super::{Item, ItemKind, ResponsesAccumulator, call_piece, hosted::hosted_call, id_of_call};
use crate::wire::{LenientValue, ResponsesEvent};

/// The statuses of a finished response. The type of the last event ends with the status, as in
/// `response.completed`.
const FINAL_STATUSES: [&str; 4] = ["completed", "incomplete", "failed", "cancelled"];

impl ResponsesAccumulator {
    /// Adds `event`, an event of the stream, to the reply. Unknown event types are ignored.
    pub(in crate::reply) fn add(
        &mut self,
        mut event: ResponsesEvent,
        sink: &mut EventSink<'_>,
    ) -> Result<(), ModelError> {
        self.accumulator.set_has_stand_ins(event.has_stand_ins);
        self.check_item_limit()?;
        let kind = std::mem::take(&mut event.kind).into_text().unwrap_or_default();
        match kind.as_str() {
            "response.output_item.added" => self.begin_item(&event, sink),
            "response.output_text.delta" => {
                let place = self.find_or_add(&event, ItemKind::Message);
                self.add_text(place, event.delta.into_text().unwrap_or_default(), sink)
            }
            "response.refusal.delta" => {
                let place = self.find_or_add(&event, ItemKind::Message);
                self.add_refusal(place, event.delta.into_text().unwrap_or_default())
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                let place = self.find_or_add(&event, ItemKind::Reasoning);
                let part = event.summary_index.to_number().or(event.content_index.to_number());
                self.add_reasoning(place, part, event.delta.into_text().unwrap_or_default(), sink)
            }
            "response.function_call_arguments.delta" => {
                let place = self.find_or_add(&event, ItemKind::Call);
                self.accumulator.add_call(
                    call_piece(place, None, None, event.delta),
                    None,
                    PieceKind::Item,
                    sink,
                )
            }
            "response.function_call_arguments.done" => {
                let place = self.find_or_add(&event, ItemKind::Call);
                self.finish_arguments(place, event.name.into_non_empty(), event.arguments, sink)
            }
            "response.output_item.done" => {
                let item = event.item.take().unwrap_or_default();
                let place = self.find_or_add_item(event.output_index.to_number(), &item);
                self.finish_item(place, item, sink)
            }
            "error" | "response.error" => Err(in_band_error(&event.into_error_json())),
            _ => self.add_response(&kind, event, sink),
        }
    }

    /// Handles an event with a `response` object. In the first events, this object contains the id
    /// and the model. In the last event, it also contains the items, the status and the usage.
    fn add_response(
        &mut self,
        kind: &str,
        event: ResponsesEvent,
        sink: &mut EventSink<'_>,
    ) -> Result<(), ModelError> {
        if kind.is_empty() && event.is_error_event() {
            return Err(in_band_error(&event.into_error_json()));
        }
        let Some(response) = event.response else { return Ok(()) };
        let named = kind.strip_prefix("response.").unwrap_or_default();
        let status = match response.get("status").and_then(Value::as_str) {
            // Some servers repeat the initial response, with its status, in the final event.
            Some("in_progress" | "queued") if FINAL_STATUSES.contains(&named) => named,
            Some(status) => status,
            None => named,
        };
        let status = status.to_owned();
        match status.as_str() {
            "in_progress" | "queued" | "created" => {
                self.set_id_and_model(&response);
                Ok(())
            }
            _ => self.add_final_response(response, &status, sink),
        }
    }

    fn begin_item(&mut self, event: &ResponsesEvent, sink: &mut EventSink<'_>) -> Result<(), ModelError> {
        let Some(item) = &event.item else { return Ok(()) };
        let index = event.output_index.to_number();
        let id = item.get("id").and_then(Value::as_str).filter(|id| !id.is_empty());
        // Some servers send index 0 for every item. If the item with this index is finished or of
        // another kind, a new item begins.
        let kind = ItemKind::of(item);
        let is_open = |it: &Item| it.final_item.is_none() && it.kind == kind;
        let open = self.find_item(index, id).filter(|place| self.items.get(*place).is_some_and(is_open));
        let place = open.unwrap_or_else(|| self.add_item(index, id.map(str::to_owned), kind));
        if kind != ItemKind::Call {
            let hosted = hosted_call(item).map(|call| HostedCall::new(call.id, call.tool));
            return hosted.map_or(Ok(()), |call| self.accumulator.start_hosted_call(call, sink));
        }
        // The arguments are not read here, because they follow in deltas and in the final item.
        self.accumulator.add_call(
            call_piece(place, id_of_call(item), item.get("name"), LenientValue::Absent),
            None,
            PieceKind::Item,
            sink,
        )
    }

    /// Returns the position of the item to which `event` belongs. An event with neither an index
    /// nor an id belongs to the last item of `kind`. A piece of a call continues the last open call
    /// if its index and id are unknown, because the name of a call is in the event that begins it.
    /// Adds a new item if there is no such item.
    fn find_or_add(&mut self, event: &ResponsesEvent, kind: ItemKind) -> usize {
        let (index, id) = (event.output_index.to_number(), event.item_id.as_non_empty_str());
        let is_named = index.is_some() || id.is_some();
        let last = || self.items.iter().rposition(|item| item.kind == kind);
        let known = if is_named { self.find_item(index, id) } else { last() };
        let known = if kind == ItemKind::Call {
            let is_open = |item: &Item| item.kind == kind && item.final_item.is_none();
            known
                .filter(|place| self.items.get(*place).is_some_and(|item| item.kind == kind))
                .or_else(|| self.items.iter().rposition(is_open))
        } else {
            known
        };
        let id = id.map(str::to_owned);
        known.unwrap_or_else(|| self.add_item(index, id, kind))
    }

    /// Stores the final arguments of the call at `place`. Some servers send neither deltas nor the
    /// final item.
    fn finish_arguments(
        &mut self,
        place: usize,
        name: Option<String>,
        arguments: LenientValue,
        sink: &mut EventSink<'_>,
    ) -> Result<(), ModelError> {
        if self.items.get(place).is_none_or(|item| item.final_item.is_some()) {
            return Ok(());
        }
        let whole = call_piece(place, None, name.map(Value::from).as_ref(), arguments);
        let size = self.accumulator.calls.set_final(whole, sink)?;
        self.accumulator.try_add_size(size)
    }

    fn add_refusal(&mut self, place: usize, text: String) -> Result<(), ModelError> {
        if let Some(item) = self.items.get_mut(place) {
            item.has_deltas = true;
        }
        self.accumulator.add_refusal(text)
    }
}
