use haft_core::{AssistantMessage, ChatResponse, ModelError, Value};

use super::{
    extras::Extras,
    fold::{Fold, Watch},
};
use crate::{
    failure::Complaint,
    origin::Origin,
    wire::{Choice, Completion, Loose, WireMessage},
};

/// A reply of the Chat Completions API: from its chunks, or from the one piece of a reply that was not streamed.
#[derive(Debug, Default)]
pub(crate) struct ChatFold {
    fold: Fold,
    extras: Extras,
    origin: Origin,
}

impl ChatFold {
    /// A reply that will be echoed to nobody but its server, where only that one understands it.
    #[cfg(feature = "client")]
    pub(crate) fn of(origin: Origin) -> Self {
        Self { origin, ..Self::default() }
    }

    #[cfg(feature = "client")]
    pub(super) fn so_far(&self) -> &Fold {
        &self.fold
    }

    /// Adds a chunk, or a whole reply.
    pub(super) fn add(
        &mut self,
        mut chunk: Completion,
        whole: bool,
        watch: &mut Watch<'_>,
    ) -> Result<(), ModelError> {
        if let Some(error) = chunk.take_error() {
            return Err(Complaint::in_band(&error));
        }
        let fold = &mut self.fold;
        fold.expect_halves(chunk.is_mended);
        self.extras.expect_halves(chunk.is_mended);
        fold.usage = chunk.take_usage().or(fold.usage);
        fold.id = fold.id.take().or_else(|| chunk.id.into_filled());
        fold.model = fold.model.take().or_else(|| chunk.model.into_filled());
        // Only one reply was asked for.
        let choice =
            chunk.choices.into_iter().flatten().find(|choice| choice.index.to_number().unwrap_or(0) == 0);
        choice.map_or(Ok(()), |choice| self.add_choice(choice, whole, watch))
    }

    fn add_choice(&mut self, choice: Choice, whole: bool, watch: &mut Watch<'_>) -> Result<(), ModelError> {
        let size = self.fold.size();
        let message = if whole { choice.message.or(choice.delta) } else { choice.delta.or(choice.message) };
        message.map_or(Ok(()), |message| self.add_message(*message, whole, watch))?;
        if self.fold.size() > size {
            self.fold.ending.goes_on();
        }
        if let Loose::Text(reason) = choice.finish_reason {
            self.fold.ending.take(reason);
        }
        Ok(())
    }

    pub(super) fn add_message(
        &mut self,
        mut message: WireMessage,
        whole: bool,
        watch: &mut Watch<'_>,
    ) -> Result<(), ModelError> {
        let kept = self.extras.take(&mut message, whole);
        self.fold.grow(kept)?;
        let is_thought = message.is_thought();
        let reasoning = message.reasoning_content.into_filled().or_else(|| message.reasoning.into_filled());
        self.fold.add_reasoning(reasoning.unwrap_or_default(), watch)?;
        match message.content {
            Loose::Json(content) if content.is_array() => {
                let mut parts = content.as_array().into_iter().flatten();
                parts.try_for_each(|part| self.add_part(part, watch))?;
            }
            content => {
                let text = content.into_text().unwrap_or_default();
                if is_thought {
                    self.fold.add_reasoning(text, watch)?;
                } else {
                    self.fold.add_text(text, watch)?;
                }
            }
        }
        self.fold.add_refusal(message.refusal.into_text().unwrap_or_default())?;
        message.tool_calls.into_iter().try_for_each(|call| self.fold.add_call(call, whole, watch))
    }

    /// Adds one of the parts that some servers send in place of text.
    fn add_part(&mut self, part: &Value, watch: &mut Watch<'_>) -> Result<(), ModelError> {
        match part.get("type").and_then(Value::as_str) {
            Some("refusal") => self.fold.add_refusal(text_of(part.get("refusal"))),
            Some("thinking") => {
                self.extras.thinks_in_parts();
                self.fold.add_reasoning(text_of(part.get("thinking")), watch)
            }
            _ => self.fold.add_text(text_of(Some(part)), watch),
        }
    }

    /// The message as far as it came, with what its server wants back.
    pub(super) fn into_message(self) -> AssistantMessage {
        self.with_extras().into_message()
    }

    pub(super) fn finish(mut self, watch: &mut Watch<'_>) -> Result<ChatResponse, ModelError> {
        self.fold.end_texts(watch)?;
        self.with_extras().finish()
    }

    #[cfg(feature = "client")]
    pub(super) fn into_truncated(self, reason: String) -> ModelError {
        self.with_extras().into_truncated(reason)
    }

    fn with_extras(self) -> Fold {
        let Self { mut fold, extras, origin } = self;
        extras.keep(&fold.calls.extras(), &origin, &mut fold.provider_data);
        fold
    }
}

/// The text of a part: a string, an object with a `text`, or a list of these.
fn text_of(part: Option<&Value>) -> String {
    match part {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => parts.iter().map(|part| text_of(Some(part))).collect(),
        Some(Value::Object(part)) => text_of(part.get("text")),
        _ => String::new(),
    }
}
