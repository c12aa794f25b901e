use haft_core::{
    message::AssistantMessage,
    model::{ChatResponse, ModelError},
};
use serde_json::Value;

use super::{
    ending::Kind,
    extras::Extras,
    fold::{Fold, Watch},
    thoughts::{Thoughts, Told},
};
use crate::{
    failure::Complaint,
    origin::Origin,
    wire::{Choice, Completion, Loose, WireMessage, later},
};

#[cfg(feature = "client")]
use crate::wire::{Chunks, Part, Said, WireCall};

/// A reply of the Chat Completions API: from its chunks, or from the one piece of a reply that was not streamed.
#[derive(Debug, Default)]
pub(crate) struct ChatFold {
    fold: Fold,
    extras: Extras,
    origin: Origin,
    /// The number of the choice that is read.
    choice: Option<i64>,
    thoughts: Thoughts,
    #[cfg(feature = "client")]
    pub(super) chunks: Chunks,
}

impl ChatFold {
    /// A reply that will be echoed to nobody but its server, where only that one understands it.
    #[cfg(feature = "client")]
    pub(crate) fn of(origin: Origin) -> Self {
        Self { origin, ..Self::default() }
    }

    /// The same, with a block of thoughts in front of its text as a part of that.
    #[cfg(feature = "client")]
    pub(crate) fn with_think_tags(mut self, whether: bool) -> Self {
        if whether {
            self.thoughts.ignore();
        }
        self
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
        if let Some(error) = chunk.take_error(whole) {
            return Err(Complaint::in_band(&error));
        }
        let fold = &mut self.fold;
        fold.expect_halves(chunk.is_mended);
        self.extras.expect_halves(chunk.is_mended);
        fold.usage = later(fold.usage, chunk.take_usage());
        fold.id = fold.id.take().or_else(|| chunk.id.into_filled());
        fold.model = fold.model.take().or_else(|| chunk.model.into_filled());
        self.add_choices(chunk.choices.unwrap_or_default(), whole, watch)
    }

    /// Goes on with a text.
    #[cfg(feature = "client")]
    pub(super) fn go_on(
        &mut self,
        Said { choice, part }: Said,
        text: String,
        watch: &mut Watch<'_>,
    ) -> Result<(), ModelError> {
        if self.choice != Some(choice) {
            return Ok(());
        }
        let size = self.fold.size();
        match part {
            Part::Content => self.say(text, watch),
            Part::ReasoningContent | Part::Reasoning => self.fold.add_reasoning(text, watch),
            Part::Arguments(call) => self.fold.add_call(WireCall::more(call, text), false, watch),
        }?;
        if self.fold.size() > size {
            self.fold.ending.goes_on();
        }
        Ok(())
    }

    /// Adds the choices of one number: only one reply was asked for. It is 0, or what a server calls its only choice.
    ///
    /// Gateways to Anthropic put the text of one reply and each of its calls into choices of their own.
    fn add_choices(
        &mut self,
        choices: Vec<Choice>,
        whole: bool,
        watch: &mut Watch<'_>,
    ) -> Result<(), ModelError> {
        let Some(first) = choices.iter().map(Choice::number).min_by_key(|number| *number != 0) else {
            return Ok(());
        };
        let own = *self.choice.get_or_insert(first);
        let mut others = Vec::new();
        for mut choice in choices {
            if choice.number() != own {
                others.push(choice);
                continue;
            }
            if whole && !self.fold.text.is_empty() {
                // Its text would be that of another reply.
                choice.forget_text();
            }
            self.add_choice(choice, whole, watch)?;
        }
        if whole && self.fold.calls.is_empty() && self.fold.ending.is_of_calls() {
            let messages = others.into_iter().filter_map(|choice| choice.message.or(choice.delta));
            let mut calls = messages.flat_map(|mut message| message.take_calls());
            calls.try_for_each(|call| self.fold.add_call(call, whole, watch))?;
        }
        Ok(())
    }

    fn add_choice(
        &mut self,
        mut choice: Choice,
        whole: bool,
        watch: &mut Watch<'_>,
    ) -> Result<(), ModelError> {
        let size = self.fold.size();
        let (message, delta) = (choice.message.take(), choice.delta.take());
        let message = if whole { message.or(delta) } else { delta.or(message) };
        message.map_or(Ok(()), |message| self.add_message(*message, whole, watch))?;
        if self.fold.size() > size {
            self.fold.ending.goes_on();
        }
        if let Some(error) = choice.take_error() {
            return Err(Complaint::in_band(&error));
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
        let mut calls = message.take_calls();
        let reasoning = message.reasoning_content.into_filled().or_else(|| message.reasoning.into_filled());
        reasoning.map_or(Ok(()), |reasoning| self.fold.add_reasoning(reasoning, watch))?;
        match message.content {
            Loose::Absent => {}
            Loose::Json(content) if content.is_array() => {
                let mut parts = content.as_array().into_iter().flatten();
                parts.try_for_each(|part| self.add_part(part, watch))?;
            }
            content => {
                let text = content.into_text().unwrap_or_default();
                if is_thought {
                    self.fold.add_reasoning(text, watch)?;
                } else {
                    self.say(text, watch)?;
                }
            }
        }
        message.refusal.into_text().map_or(Ok(()), |refusal| self.fold.add_refusal(refusal))?;
        if let Some(audio) = message.audio.take() {
            self.fold.add_text(audio.transcript.into_text().unwrap_or_default(), watch)?;
        }
        calls.try_for_each(|call| self.fold.add_call(call, whole, watch))
    }

    /// Adds one of the parts that some servers send in place of text.
    fn add_part(&mut self, part: &Value, watch: &mut Watch<'_>) -> Result<(), ModelError> {
        match part.get("type").and_then(Value::as_str) {
            Some("refusal") => self.fold.add_refusal(text_of(part.get("refusal"))),
            Some("thinking") => {
                self.extras.thinks_in_parts();
                self.fold.add_reasoning(text_of(part.get("thinking")), watch)
            }
            _ => self.say(text_of(Some(part)), watch),
        }
    }

    /// Adds text, in which there may be thoughts.
    fn say(&mut self, text: String, watch: &mut Watch<'_>) -> Result<(), ModelError> {
        let told = self.thoughts.tell(text);
        self.add_told(told, watch)
    }

    fn add_told(&mut self, told: Told, watch: &mut Watch<'_>) -> Result<(), ModelError> {
        self.fold.add_reasoning(told.thought, watch)?;
        self.fold.add_text(told.said, watch)
    }

    /// Ends all texts: what was kept back of them is told.
    fn end_texts(&mut self, watch: &mut Watch<'_>) -> Result<(), ModelError> {
        let rest = self.thoughts.end();
        self.add_told(rest, watch)?;
        self.fold.end_texts(watch)
    }

    /// The message as far as it came, with what its server wants back.
    pub(super) fn into_message(mut self) -> AssistantMessage {
        // What is too long by what was kept back is left as it is.
        let _ = self.end_texts(&mut None);
        self.with_extras().into_message()
    }

    pub(super) fn finish(mut self, watch: &mut Watch<'_>) -> Result<ChatResponse, ModelError> {
        let is_within = self.thoughts.is_within();
        self.end_texts(watch)?;
        let fold = self.with_extras();
        if is_within && fold.is_silent() && fold.ending.kind() == Kind::Complete {
            return Err(fold.into_truncated("it ended within its thoughts"));
        }
        fold.finish()
    }

    #[cfg(feature = "client")]
    pub(super) fn into_truncated(mut self, reason: String) -> ModelError {
        let _ = self.end_texts(&mut None);
        self.with_extras().into_truncated(reason)
    }

    fn with_extras(self) -> Fold {
        let Self { mut fold, extras, origin, .. } = self;
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
