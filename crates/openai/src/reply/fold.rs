use std::{collections::VecDeque, mem};

use haft_core::{
    AssistantMessage, ChatEvent, ChatResponse, Content, ModelError, Usage, Value, limits::LINE_BYTES,
};

use super::{
    call::Calls,
    ending::{Ending, Kind},
};
use crate::{
    failure::Complaint,
    wire::{Choice, Completion, Loose, WireMessage},
};

/// Where the events of a reply go, if anybody watches.
pub(crate) type Watch<'w> = Option<&'w mut VecDeque<ChatEvent>>;

/// A reply that is put together: from its chunks, or from the one piece of a reply that was not streamed.
#[derive(Debug, Default)]
pub(crate) struct Fold {
    id: Option<String>,
    model: Option<String>,
    text: String,
    reasoning: String,
    refusal: String,
    calls: Calls,
    ending: Ending,
    usage: Option<Usage>,
    /// How many bytes were kept so far.
    size: usize,
}

impl Fold {
    /// Adds a chunk, or a whole reply.
    pub(crate) fn add(
        &mut self,
        mut chunk: Completion,
        whole: bool,
        watch: &mut Watch<'_>,
    ) -> Result<(), ModelError> {
        if let Some(error) = chunk.take_error() {
            return Err(Complaint::in_band(&error));
        }
        self.usage = chunk.take_usage().or(self.usage);
        self.id = self.id.take().or_else(|| chunk.id.into_filled());
        self.model = self.model.take().or_else(|| chunk.model.into_filled());
        // Only one reply was asked for.
        let choice =
            chunk.choices.into_iter().flatten().find(|choice| choice.index.to_number().unwrap_or(0) == 0);
        choice.map_or(Ok(()), |choice| self.add_choice(choice, whole, watch))
    }

    fn add_choice(&mut self, choice: Choice, whole: bool, watch: &mut Watch<'_>) -> Result<(), ModelError> {
        let size = self.size;
        let message = if whole { choice.message.or(choice.delta) } else { choice.delta.or(choice.message) };
        message.map_or(Ok(()), |message| self.add_message(message, whole, watch))?;
        if self.size > size {
            self.ending.goes_on();
        }
        if let Loose::Text(reason) = choice.finish_reason {
            self.ending.take(reason);
        }
        Ok(())
    }

    pub(crate) fn add_message(
        &mut self,
        message: WireMessage,
        whole: bool,
        watch: &mut Watch<'_>,
    ) -> Result<(), ModelError> {
        let reasoning = message.reasoning_content.into_filled().or_else(|| message.reasoning.into_filled());
        self.add_reasoning(reasoning.unwrap_or_default(), watch)?;
        match message.content {
            Loose::Json(Value::Array(parts)) => {
                parts.iter().try_for_each(|part| self.add_part(part, watch))?;
            }
            content => self.add_text(content.into_text().unwrap_or_default(), watch)?,
        }
        self.add_refusal(&message.refusal.into_text().unwrap_or_default())?;
        for call in message.tool_calls {
            let size = self.calls.add(call, whole, watch)?;
            self.grow(size)?;
        }
        Ok(())
    }

    /// Adds one of the parts that some servers send in place of text.
    fn add_part(&mut self, part: &Value, watch: &mut Watch<'_>) -> Result<(), ModelError> {
        match part.get("type").and_then(Value::as_str) {
            Some("refusal") => self.add_refusal(&text_of(part.get("refusal"))),
            Some("thinking") => self.add_reasoning(text_of(part.get("thinking")), watch),
            _ => self.add_text(text_of(Some(part)), watch),
        }
    }

    fn add_text(&mut self, text: String, watch: &mut Watch<'_>) -> Result<(), ModelError> {
        self.grow(text.len())?;
        self.text.push_str(&text);
        if let Some(events) = watch.as_mut().filter(|_| !text.is_empty()) {
            events.push_back(ChatEvent::TextDelta { text });
        }
        Ok(())
    }

    fn add_reasoning(&mut self, text: String, watch: &mut Watch<'_>) -> Result<(), ModelError> {
        self.grow(text.len())?;
        self.reasoning.push_str(&text);
        if let Some(events) = watch.as_mut().filter(|_| !text.is_empty()) {
            events.push_back(ChatEvent::ReasoningDelta { text });
        }
        Ok(())
    }

    fn add_refusal(&mut self, text: &str) -> Result<(), ModelError> {
        self.grow(text.len())?;
        self.refusal.push_str(text);
        Ok(())
    }

    fn grow(&mut self, bytes: usize) -> Result<(), ModelError> {
        self.size = self.size.saturating_add(bytes);
        if self.size > LINE_BYTES {
            return Err(ModelError::InvalidResponse(format!("it is longer than {LINE_BYTES} bytes")));
        }
        Ok(())
    }

    /// Whether the server said that nothing more comes, except perhaps for the usage.
    #[cfg(feature = "client")]
    pub(crate) fn is_finished(&self) -> bool {
        self.ending.is_over()
    }

    /// Whether it is finished and there is an answer: after a reason that comes behind nothing but reasoning, the answer
    /// may still come.
    #[cfg(feature = "client")]
    pub(crate) fn is_answered(&self) -> bool {
        let has_answer = !self.text.is_empty() || !self.refusal.is_empty() || !self.calls.is_empty();
        self.is_finished() && has_answer
    }

    /// The message as far as it came.
    pub(crate) fn into_message(self) -> AssistantMessage {
        AssistantMessage {
            content: filled(self.text).map(Content::from).into_iter().collect(),
            reasoning: filled(self.reasoning),
            tool_calls: self.calls.into_calls(),
            refusal: filled(self.refusal),
        }
    }

    /// The reply, once all of it came.
    ///
    /// A call of which only a part came is never part of it. Only where the server says that the model had said all is
    /// what looks like half a call the model's own mistake.
    pub(crate) fn finish(mut self) -> Result<ChatResponse, ModelError> {
        let (cut, how) = match self.ending.kind() {
            Kind::Failure => return Err(self.into_failure()),
            Kind::Complete if self.ending.is_over() => (None, ""),
            Kind::Limit => (self.calls.stopped(), "a limit of tokens stopped it"),
            Kind::Filter => (self.calls.stopped(), "a content filter stopped it"),
            Kind::Complete | Kind::Unknown => (self.calls.cut(), "it ended"),
        };
        if let Some(call) = cut {
            let reason = format!("{how} inside the call of \"{call}\"");
            return Err(self.into_truncated(reason));
        }
        let may_be_empty = matches!(self.ending.kind(), Kind::Limit | Kind::Filter);
        let (id, model, usage) = (self.id.take(), self.model.take(), self.usage);
        let ending = mem::take(&mut self.ending);
        let message = self.into_message();
        if message.is_empty() && !may_be_empty {
            return Err(ModelError::EmptyResponse);
        }
        let finish_reason = ending.into_reason(&message);
        let usage = usage.unwrap_or(Usage::of_request(0, 0));
        Ok(ChatResponse { message, finish_reason, usage, id, model })
    }

    /// The error of a reply that ended before it was complete.
    pub(crate) fn into_truncated(self, reason: impl Into<String>) -> ModelError {
        ModelError::Truncated { reason: reason.into(), partial: Box::new(self.into_message()) }
    }

    fn into_failure(self) -> ModelError {
        let text = self.into_message().text();
        let body = format!("it stopped with an error after \"{}\"", crate::failure::excerpt(&text));
        ModelError::Server { status: None, body, retry_after: None }
    }
}

fn filled(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
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
