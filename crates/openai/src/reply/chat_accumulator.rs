use haft_core::{
    message::AssistantMessage,
    model::{
        ChatResponse, ModelError,
        adapter::{EventSink, FinishKind, Origin, PieceKind, ReplyAccumulator, in_band_error},
    },
    text::{ThinkSplit, ThinkTagParser},
};
use serde_json::Value;

use super::opaque_fields::OpaqueFields;
use crate::wire::{Choice, Completion, LenientValue, WireCall, WireMessage, merge_usage};

/// An accumulator that builds a Chat Completions reply from the chunks of a stream or from a whole
/// body.
#[derive(Debug, Default)]
pub(crate) struct ChatAccumulator {
    accumulator: ReplyAccumulator,
    opaque_fields: OpaqueFields,
    origin: Origin,
    /// The index of the choice from which the reply is built. `None` before the first choice.
    choice_index: Option<i64>,
    think_tags: ThinkTagParser,
}

impl ChatAccumulator {
    /// Creates an accumulator. The origin in `encoding`, the options of the requests, is stored with
    /// the provider data of the message.
    #[cfg(feature = "client")]
    pub(crate) fn new(encoding: &crate::format::EncodingOptions) -> Self {
        let accumulator = ReplyAccumulator::new(encoding.call_ids.clone());
        Self { accumulator, origin: encoding.origin.clone(), ..Self::default() }
    }

    /// Keeps a leading `<think>` block in the text if `enabled` is `true`.
    #[cfg(feature = "client")]
    pub(crate) fn keep_think_tags(mut self, enabled: bool) -> Self {
        if enabled {
            self.think_tags.disable();
        }
        self
    }

    #[cfg(feature = "client")]
    pub(super) fn inner(&self) -> &ReplyAccumulator {
        &self.accumulator
    }

    /// Adds `chunk` to the reply. If `whole` is `true`, `chunk` is a complete, non-streamed reply
    /// instead of one chunk of a stream. Events for new content are pushed to `sink`, if it is
    /// `Some`.
    pub(super) fn add(
        &mut self,
        mut chunk: Completion,
        whole: bool,
        sink: &mut EventSink<'_>,
    ) -> Result<(), ModelError> {
        if let Some(error) = chunk.take_error(whole) {
            return Err(in_band_error(&error));
        }
        let accumulator = &mut self.accumulator;
        accumulator.set_has_stand_ins(chunk.has_stand_ins);
        self.opaque_fields.set_has_stand_ins(chunk.has_stand_ins);
        accumulator.usage = merge_usage(accumulator.usage, chunk.take_usage());
        accumulator.id = accumulator.id.take().or_else(|| chunk.id.into_non_empty());
        accumulator.model = accumulator.model.take().or_else(|| chunk.model.into_non_empty());
        self.add_choices(chunk.choices.unwrap_or_default(), whole, sink)
    }

    /// Adds the choices with the selected index. The first chunk with choices selects the index: 0
    /// if one of its choices has index 0, or else the index of its first choice. Other choices are
    /// ignored, because only one choice was requested.
    ///
    /// There is one exception. Gateways to Anthropic split a non-streamed reply into several
    /// choices: one with the text, and one per call. If the finish reason announces calls but no
    /// call was found, the calls of the other choices are added.
    fn add_choices(
        &mut self,
        choices: Vec<Choice>,
        whole: bool,
        sink: &mut EventSink<'_>,
    ) -> Result<(), ModelError> {
        let Some(first) = choices.iter().map(Choice::index_or_zero).min_by_key(|number| *number != 0) else {
            return Ok(());
        };
        let own = *self.choice_index.get_or_insert(first);
        let mut others = Vec::new();
        for mut choice in choices {
            if choice.index_or_zero() != own {
                others.push(choice);
                continue;
            }
            if whole && !self.accumulator.text().is_empty() {
                // A second text with the same index belongs to an alternative reply, so it is
                // dropped.
                choice.keep_only_calls();
            }
            self.add_choice(choice, whole, sink)?;
        }
        if whole && self.accumulator.calls.is_empty() && self.accumulator.finish_state.means_tool_calls() {
            let messages = others
                .into_iter()
                .filter_map(|mut choice| choice.message.take().or_else(|| choice.delta.take()));
            let mut calls = messages.flat_map(|mut message| message.take_calls());
            calls.try_for_each(|call| self.add_call(call, PieceKind::Whole, sink))?;
        }
        Ok(())
    }

    fn add_choice(
        &mut self,
        mut choice: Choice,
        whole: bool,
        sink: &mut EventSink<'_>,
    ) -> Result<(), ModelError> {
        let size = self.accumulator.size();
        let (message, delta) = (choice.message.take(), choice.delta.take());
        let message = if whole { message.or(delta) } else { delta.or(message) };
        message.map_or(Ok(()), |message| self.add_message(*message, whole, sink))?;
        if self.accumulator.size() > size {
            self.accumulator.finish_state.reopen();
        }
        if let Some(error) = choice.take_error() {
            return Err(in_band_error(&error));
        }
        if let LenientValue::Text(reason) = choice.finish_reason {
            self.accumulator.finish_state.set_reason(reason);
        }
        Ok(())
    }

    pub(super) fn add_message(
        &mut self,
        mut message: WireMessage,
        whole: bool,
        sink: &mut EventSink<'_>,
    ) -> Result<(), ModelError> {
        let size = self.opaque_fields.take_from(&mut message, whole);
        self.accumulator.try_add_size(size)?;
        let is_thought = message.is_thought();
        let mut calls = message.take_calls();
        let reasoning =
            message.reasoning_content.into_non_empty().or_else(|| message.reasoning.into_non_empty());
        reasoning.map_or(Ok(()), |reasoning| self.accumulator.add_reasoning(reasoning, sink))?;
        match message.content {
            LenientValue::Absent => {}
            LenientValue::Json(content) if content.is_array() => {
                let mut parts = content.as_array().into_iter().flatten();
                parts.try_for_each(|part| self.add_part(part, sink))?;
            }
            content => {
                let text = content.into_text().unwrap_or_default();
                if is_thought {
                    self.accumulator.add_reasoning(text, sink)?;
                } else {
                    self.add_content(text, sink)?;
                }
            }
        }
        message.refusal.into_text().map_or(Ok(()), |refusal| self.accumulator.add_refusal(refusal))?;
        if let Some(audio) = message.audio.take() {
            self.accumulator.add_text(audio.transcript.into_text().unwrap_or_default(), sink)?;
        }
        let kind = if whole { PieceKind::Whole } else { PieceKind::Delta };
        self.accumulator.calls.begin_chunk();
        calls.try_for_each(|call| self.add_call(call, kind, sink))
    }

    fn add_call(
        &mut self,
        call: WireCall,
        kind: PieceKind,
        sink: &mut EventSink<'_>,
    ) -> Result<(), ModelError> {
        let (piece, extra) = call.into_piece();
        self.accumulator.add_call(piece, extra, kind, sink)
    }

    /// Adds `part`, one element of a `content` list.
    fn add_part(&mut self, part: &Value, sink: &mut EventSink<'_>) -> Result<(), ModelError> {
        match part.get("type").and_then(Value::as_str) {
            Some("refusal") => self.accumulator.add_refusal(text_of(part.get("refusal"))),
            Some("thinking") => {
                self.opaque_fields.set_thinking_parts();
                self.accumulator.add_reasoning(text_of(part.get("thinking")), sink)
            }
            _ => self.add_content(text_of(Some(part)), sink),
        }
    }

    /// Adds text that may begin with a `<think>` block.
    fn add_content(&mut self, text: String, sink: &mut EventSink<'_>) -> Result<(), ModelError> {
        let split = self.think_tags.push(text);
        self.add_split(split, sink)
    }

    fn add_split(&mut self, split: ThinkSplit, sink: &mut EventSink<'_>) -> Result<(), ModelError> {
        self.accumulator.add_reasoning(split.reasoning, sink)?;
        self.accumulator.add_text(split.text, sink)
    }

    /// Ends the text, the reasoning, the refusal and the calls. Emits everything that was held
    /// back.
    fn end_texts(&mut self, sink: &mut EventSink<'_>) -> Result<(), ModelError> {
        let rest = self.think_tags.finish();
        self.add_split(rest, sink)?;
        self.accumulator.flush(sink)
    }

    /// Returns the message received so far, with its provider data.
    pub(super) fn into_message(mut self) -> AssistantMessage {
        // An error about a size limit is ignored, because only text that was held back is lost.
        let _ = self.end_texts(&mut None);
        self.with_opaque_fields().into_message()
    }

    pub(super) fn finish(mut self, sink: &mut EventSink<'_>) -> Result<ChatResponse, ModelError> {
        let is_within = self.think_tags.is_inside();
        self.end_texts(sink)?;
        let accumulator = self.with_opaque_fields();
        if is_within && accumulator.has_no_answer() && accumulator.finish_state.kind() == FinishKind::Complete
        {
            return Err(accumulator.into_truncated("it ended within its reasoning"));
        }
        accumulator.finish()
    }

    #[cfg(feature = "client")]
    pub(super) fn into_truncated(mut self, reason: String) -> ModelError {
        let _ = self.end_texts(&mut None);
        self.with_opaque_fields().into_truncated(reason)
    }

    fn with_opaque_fields(self) -> ReplyAccumulator {
        let Self { mut accumulator, opaque_fields, origin, .. } = self;
        opaque_fields.save_to(
            &accumulator.calls.extra_content_by_id(),
            &origin,
            &mut accumulator.provider_data,
        );
        accumulator
    }
}

/// Returns the text of `part`, which may be a string, an object with the field `text`, or a list of
/// strings and objects.
fn text_of(part: Option<&Value>) -> String {
    match part {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => parts.iter().map(|part| text_of(Some(part))).collect(),
        Some(Value::Object(part)) => text_of(part.get("text")),
        _ => String::new(),
    }
}
