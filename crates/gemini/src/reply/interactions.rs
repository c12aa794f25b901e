mod event;
mod hosted_step;
mod step;
mod usage;

use haft_core::{
    limits::REPLY_CALLS,
    model::{
        CallPiece, ChatResponse, ModelError,
        adapter::{
            EventSink, FinishKind, Origin, PieceKind, ReplyAccumulator, decode_error, excerpt, in_band_error,
        },
    },
};
use serde_json::{Value, json, value::RawValue};

use self::{
    event::WireInteraction,
    step::{OpenStep, StepKind, WireStep},
};
use super::{part_log::PartLog, stream_accumulator::not_a_reply, wire::arguments_text};
use crate::format::{WireApi, tool_name};

pub(crate) use event::InteractionsEvent;

/// The separator between the texts of two steps.
const TEXT_SEPARATOR: &str = "\n\n";

/// An accumulator that builds a reply of the Interactions API (a list of steps) from the events of a
/// stream or from a whole body.
#[derive(Debug, Default)]
pub(crate) struct InteractionsAccumulator {
    reply: ReplyAccumulator,
    steps: Vec<OpenStep>,
    calls: usize,
    origin: Origin,
    is_completed: bool,
}

impl InteractionsAccumulator {
    pub(crate) fn new(origin: Origin) -> Self {
        Self { origin, ..Self::default() }
    }

    pub(super) fn reply(&self) -> &ReplyAccumulator {
        &self.reply
    }

    /// Returns `true` after the event `interaction.completed`.
    pub(super) fn is_completed(&self) -> bool {
        self.is_completed
    }

    /// Adds `event`, an event of the stream. Unknown event types are ignored.
    pub(super) fn add(
        &mut self,
        event: InteractionsEvent,
        sink: &mut EventSink<'_>,
    ) -> Result<(), ModelError> {
        self.reply.set_has_stand_ins(event.has_stand_ins);
        if let Some(usage) = event.usage() {
            self.reply.usage = Some(usage);
        }
        match event.kind.as_str() {
            "step.start" => event.step.map_or(Ok(()), |step| self.start_step(event.index, &step, sink)),
            "step.delta" => self.add_delta(event.index, event.delta.unwrap_or_default(), sink),
            "step.stop" => self.find(event.index).map_or(Ok(()), |place| self.finish_step(place, sink)),
            "interaction.status_update" => self.set_status(&event.status.unwrap_or_default(), None),
            "interaction.created" | "interaction.completed" => {
                self.is_completed = event.kind == "interaction.completed";
                event.interaction.map_or(Ok(()), |interaction| self.add_interaction(interaction, sink))
            }
            _ => match event.error() {
                Some(error) => Err(in_band_error(&error)),
                None => Ok(()),
            },
        }
    }

    pub(super) fn decode_whole(mut self, body: &[u8]) -> Result<ChatResponse, ModelError> {
        let (interaction, has_stand_ins) =
            WireInteraction::read(body).map_err(|error| decode_error(&error, body))?;
        if interaction.status.is_none() {
            return Err(not_a_reply(body, "status"));
        }
        self.reply.set_has_stand_ins(has_stand_ins);
        self.add_interaction(interaction, &mut None)?;
        self.finish(&mut None)
    }

    /// Adds a whole interaction, or the interaction in the first or the last event of a stream. The
    /// last event may repeat the steps.
    fn add_interaction(
        &mut self,
        interaction: WireInteraction,
        sink: &mut EventSink<'_>,
    ) -> Result<(), ModelError> {
        let non_empty = |text: Option<String>| text.filter(|text| !text.is_empty());
        self.reply.id = self.reply.id.take().or_else(|| non_empty(interaction.id));
        self.reply.model = self.reply.model.take().or_else(|| non_empty(interaction.model));
        if let Some(usage) = interaction.usage {
            self.reply.usage = Some(usage.into());
        }
        if self.steps.is_empty() {
            for step in interaction.steps.into_iter().flatten() {
                self.start_step(None, &step, sink)?;
                self.finish_step(self.steps.len().saturating_sub(1), sink)?;
            }
        }
        let error = interaction.error.into_iter().chain(interaction.errors.into_iter().flatten()).next();
        self.set_status(&interaction.status.unwrap_or_default(), error)
    }

    /// Sets the finish reason for `status`. A status in the middle of a reply is ignored.
    fn set_status(&mut self, status: &str, error: Option<Value>) -> Result<(), ModelError> {
        let reason = match status {
            "" | "in_progress" | "queued" | "idle" => return Ok(()),
            "completed" => "stop",
            "requires_action" => "tool_calls",
            // The limit of tokens of the request, of the account, or of one hop.
            "incomplete" | "budget_exceeded" | "requires_continuation" => "MAX_TOKENS",
            "failed" => match error.filter(|error| !error.is_null()) {
                Some(error) => return Err(in_band_error(&named_error(error))),
                None => "error",
            },
            other => other,
        };
        self.reply.finish_state.set_reason(reason.to_owned());
        Ok(())
    }

    /// Returns the place of the step of an event. An event without index belongs to the last step.
    fn find(&self, index: Option<i64>) -> Option<usize> {
        self.steps.iter().rposition(|step| index.is_none() || step.index == index)
    }

    fn start_step(
        &mut self,
        index: Option<i64>,
        raw: &RawValue,
        sink: &mut EventSink<'_>,
    ) -> Result<(), ModelError> {
        if self.steps.len() > REPLY_CALLS {
            return Err(ModelError::InvalidResponse(format!("it has more than {REPLY_CALLS} steps")));
        }
        let mut step: WireStep = serde_json::from_str(raw.get())
            .map_err(|error| ModelError::InvalidResponse(format!("{error}: {}", excerpt(raw.get()))))?;
        let kind = StepKind::of(&step.kind);
        self.reply.finish_state.reopen();
        let mut open = OpenStep::new(index, kind);
        open.signature = step.signature.take();
        let place = self.steps.len();
        match kind {
            StepKind::Output => {
                self.steps.push(open);
                if let Some(error) = step.error.filter(|error| !error.is_null()) {
                    return Err(in_band_error(&named_error(error)));
                }
                step.content
                    .into_iter()
                    .flatten()
                    .try_for_each(|content| self.add_content(place, &content, sink))
            }
            StepKind::Thought => {
                self.steps.push(open);
                let mut summary = step.summary.into_iter().flatten();
                summary.try_for_each(|content| self.add_thought(place, &content, sink))
            }
            StepKind::Call => {
                open.call = Some(self.calls);
                open.first_arguments = arguments_text(step.arguments.as_deref());
                let id = step.id.filter(|id| !id.is_empty());
                let name = step.name.map(|name| tool_name(&name).to_owned()).filter(|name| !name.is_empty());
                let piece = CallPiece { index: self.call_index(), id, name, arguments: String::new() };
                self.calls += 1;
                self.steps.push(open);
                self.reply.calls.begin_chunk();
                self.reply.add_call(piece, None, PieceKind::Item, sink)
            }
            StepKind::Hosted | StepKind::Input => {
                open.json = serde_json::from_str(raw.get()).unwrap_or_default();
                self.steps.push(open);
                Ok(())
            }
        }
    }

    /// Returns the index of the next call. The calls of a reply are counted from 0.
    fn call_index(&self) -> Option<i64> {
        self.calls.try_into().ok()
    }

    fn add_delta(
        &mut self,
        index: Option<i64>,
        delta: Value,
        sink: &mut EventSink<'_>,
    ) -> Result<(), ModelError> {
        let Some(place) = self.find(index) else { return Ok(()) };
        let Some(step) = self.steps.get_mut(place) else { return Ok(()) };
        let text = |key: &str| delta.get(key).and_then(Value::as_str).unwrap_or_default();
        match text("type") {
            "arguments_delta" => {
                let Some(call) = step.call else { return Ok(()) };
                step.has_arguments = true;
                let arguments = text("arguments").to_owned();
                let piece = CallPiece { index: call.try_into().ok(), arguments, ..CallPiece::default() };
                self.reply.add_call(piece, None, PieceKind::Item, sink)
            }
            "thought_signature" => {
                self.reply.try_add_size(text("signature").len())?;
                step.signature = Some(step.signature.take().unwrap_or_default() + text("signature"));
                Ok(())
            }
            "thought_summary" => {
                let content = delta.get("content").cloned().unwrap_or_default();
                self.add_thought(place, &content, sink)
            }
            "text_annotation_delta" => self.add_annotations(place, &delta),
            _ if step.kind == StepKind::Output => self.add_content(place, &delta, sink),
            _ => {
                self.reply.try_add_size(delta.to_string().len())?;
                hosted_step::merge(&mut step.json, delta);
                Ok(())
            }
        }
    }

    /// Adds a content of a step of output: a text or a medium.
    fn add_content(
        &mut self,
        place: usize,
        content: &Value,
        sink: &mut EventSink<'_>,
    ) -> Result<(), ModelError> {
        if let Some(text) = content.get("text").and_then(Value::as_str).filter(|text| !text.is_empty()) {
            let is_first = self.steps.get(place).is_some_and(|step| step.text_start.is_none());
            if is_first && !self.reply.text().is_empty() {
                self.reply.add_text(TEXT_SEPARATOR.to_owned(), sink)?;
            }
            let start = self.reply.text().len();
            self.reply.add_text(text.to_owned(), sink)?;
            if let Some(step) = self.steps.get_mut(place) {
                step.add_text(start, self.reply.text().len());
            }
        } else if let Some(medium) = step::medium_of(content)? {
            self.reply.add_media(medium)?;
            if let Some(step) = self.steps.get_mut(place) {
                step.add_media();
            }
        }
        self.add_annotations(place, content)
    }

    fn add_annotations(&mut self, place: usize, content: &Value) -> Result<(), ModelError> {
        let annotations = content.get("annotations").and_then(Value::as_array);
        let start = self.steps.get(place).and_then(OpenStep::last_text_start).unwrap_or_default();
        for annotation in annotations.into_iter().flatten() {
            if let Some(citation) = step::citation_of(annotation, start, self.reply.text()) {
                self.reply.add_citation(citation)?;
            }
        }
        Ok(())
    }

    fn add_thought(
        &mut self,
        place: usize,
        content: &Value,
        sink: &mut EventSink<'_>,
    ) -> Result<(), ModelError> {
        let text = content.get("text").and_then(Value::as_str).unwrap_or_default();
        let start = self.reply.reasoning().len();
        self.reply.add_reasoning(text.to_owned(), sink)?;
        if let Some(step) = self.steps.get_mut(place) {
            let start = step.thought.map_or(start, |(start, _)| start);
            step.thought = Some((start, self.reply.reasoning().len()));
        }
        Ok(())
    }

    /// Ends the step at `place`. A call without deltas has the arguments of its first event.
    fn finish_step(&mut self, place: usize, sink: &mut EventSink<'_>) -> Result<(), ModelError> {
        let Some(step) = self.steps.get_mut(place).filter(|step| !step.is_finished) else { return Ok(()) };
        step.is_finished = true;
        match step.kind {
            StepKind::Call if !step.has_arguments => {
                let arguments = std::mem::take(&mut step.first_arguments);
                let index = step.call.and_then(|call| call.try_into().ok());
                let piece = CallPiece { index, arguments, ..CallPiece::default() };
                self.reply.add_call(piece, None, PieceKind::Item, sink)
            }
            StepKind::Hosted => {
                self.reply.try_add_size(step.json.to_string().len())?;
                if let Some(call) = hosted_step::started_call(&step.json) {
                    return self.reply.start_hosted_call(call, sink);
                }
                match hosted_step::finished_call(&step.json, self.reply.hosted_calls()) {
                    Some(call) => self.reply.finish_hosted_call(call, sink),
                    None => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    pub(super) fn finish(mut self, sink: &mut EventSink<'_>) -> Result<ChatResponse, ModelError> {
        let is_cut = self.reply.finish_state.kind() == FinishKind::Limit;
        for place in 0..self.steps.len() {
            // The arguments of a call that a limit has cut would be an empty object.
            let is_call = |step: &OpenStep| step.kind == StepKind::Call && !step.has_arguments;
            if is_cut && self.steps.get(place).is_some_and(|step| !step.is_finished && is_call(step)) {
                continue;
            }
            self.finish_step(place, sink)?;
        }
        self.reply.flush(sink)?;
        if !self.reply.is_finished() {
            return Err(self.into_truncated("the server reports it as unfinished".to_owned()));
        }
        let Self { reply, steps, origin, .. } = self;
        let mut response = reply.finish()?;
        let mut log = PartLog::default();
        steps.into_iter().for_each(|step| step.log(&mut log));
        log.store(&mut response.message, WireApi::Interactions.stored_field(), &origin);
        Ok(response)
    }

    pub(super) fn into_truncated(mut self, reason: String) -> ModelError {
        // An error about the size limit is ignored, because the reply has failed already.
        let _ = self.reply.flush(&mut None);
        self.reply.into_truncated(reason)
    }
}

/// Returns `error`, an error in an interaction, with the name of its code. A `google.rpc.Status` has
/// a number instead of a name, and other errors have a URI that ends with the name.
fn named_error(mut error: Value) -> Value {
    let name = match error.get("code") {
        Some(Value::Number(code)) => match code.as_i64() {
            Some(3) => "INVALID_ARGUMENT",
            Some(7) => "PERMISSION_DENIED",
            Some(8) => "RESOURCE_EXHAUSTED",
            Some(16) => "UNAUTHENTICATED",
            Some(400..600) => return error,
            _ => "UNAVAILABLE",
        }
        .to_owned(),
        Some(Value::String(uri)) => uri.rsplit('/').next().unwrap_or(uri).to_owned(),
        _ => return error,
    };
    if let Value::Object(fields) = &mut error {
        fields.insert("code".to_owned(), json!(name));
    }
    error
}
