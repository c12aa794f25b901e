use std::{collections::VecDeque, mem};

use haft_core::{
    content::Content,
    limits::LINE_BYTES,
    message::{AssistantMessage, ProviderData},
    model::{ChatEvent, ChatResponse, ModelError},
    usage::Usage,
};

use super::{
    call::Calls,
    ending::{Ending, Kind},
};
use crate::wire::{Half, WireCall};

/// Where the events of a reply go, if anybody watches.
pub(crate) type Watch<'w> = Option<&'w mut VecDeque<ChatEvent>>;

/// A reply that is put together, whatever API it comes by: what was heard of it is what it will be.
#[derive(Debug, Default)]
pub(crate) struct Fold {
    pub(super) id: Option<String>,
    pub(super) model: Option<String>,
    pub(super) text: String,
    pub(super) reasoning: String,
    refusal: String,
    pub(super) calls: Calls,
    pub(super) ending: Ending,
    pub(super) usage: Option<Usage>,
    pub(super) provider_data: ProviderData,
    halves: Halves,
    /// How many bytes were kept so far.
    size: usize,
}

/// Halves of characters that end what was said, thought and declined so far.
#[derive(Debug, Default)]
struct Halves {
    text: Half,
    reasoning: Half,
    refusal: Half,
    /// Whether there may be some in what comes next.
    are_expected: bool,
}

impl Fold {
    /// Says whether there may be halves of characters in what comes next.
    pub(super) fn expect_halves(&mut self, whether: bool) {
        self.halves.are_expected = whether;
        self.calls.expect_halves(whether);
    }

    /// Forgets half a character: what was said comes once more, as a whole.
    pub(super) fn forget_half(&mut self) {
        self.halves.text.forget();
    }

    /// Whether nothing was said, called or declined.
    pub(super) fn is_silent(&self) -> bool {
        self.text.is_empty() && self.refusal.is_empty() && self.calls.is_empty()
    }

    /// Ends all texts: half a character that is left is told.
    pub(super) fn end_texts(&mut self, watch: &mut Watch<'_>) -> Result<(), ModelError> {
        self.expect_halves(false);
        let Halves { text, reasoning, refusal, .. } = &mut self.halves;
        let (text, reasoning, refusal) = (text.end(), reasoning.end(), refusal.end());
        self.add_text(text.unwrap_or_default(), watch)?;
        self.add_reasoning(reasoning.unwrap_or_default(), watch)?;
        self.add_refusal(refusal.unwrap_or_default())?;
        self.calls.end(watch)
    }

    pub(super) fn add_text(&mut self, text: String, watch: &mut Watch<'_>) -> Result<(), ModelError> {
        let text = self.halves.text.join(text, self.halves.are_expected);
        self.grow(text.len())?;
        self.text.push_str(&text);
        if let Some(events) = watch.as_mut().filter(|_| !text.is_empty()) {
            events.push_back(ChatEvent::TextDelta { text });
        }
        Ok(())
    }

    pub(super) fn add_reasoning(&mut self, text: String, watch: &mut Watch<'_>) -> Result<(), ModelError> {
        let text = self.halves.reasoning.join(text, self.halves.are_expected);
        self.grow(text.len())?;
        self.reasoning.push_str(&text);
        if let Some(events) = watch.as_mut().filter(|_| !text.is_empty()) {
            events.push_back(ChatEvent::ReasoningDelta { text });
        }
        Ok(())
    }

    pub(super) fn add_refusal(&mut self, text: String) -> Result<(), ModelError> {
        let text = self.halves.refusal.join(text, self.halves.are_expected);
        self.grow(text.len())?;
        self.refusal.push_str(&text);
        Ok(())
    }

    /// Adds a piece of a call; in a whole reply every piece is one.
    pub(super) fn add_call(
        &mut self,
        call: WireCall,
        whole: bool,
        watch: &mut Watch<'_>,
    ) -> Result<(), ModelError> {
        let size = self.calls.add(call, whole, watch)?;
        self.grow(size)
    }

    /// Counts what is kept, and refuses what is too much.
    pub(super) fn grow(&mut self, bytes: usize) -> Result<(), ModelError> {
        self.size = self.size.saturating_add(bytes);
        if self.size > LINE_BYTES {
            return Err(ModelError::InvalidResponse(format!("it is longer than {LINE_BYTES} bytes")));
        }
        Ok(())
    }

    /// How many bytes were kept so far.
    pub(super) fn size(&self) -> usize {
        self.size
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
    pub(super) fn into_message(self) -> AssistantMessage {
        AssistantMessage {
            content: filled(self.text).map(Content::from).into_iter().collect(),
            reasoning: filled(self.reasoning),
            tool_calls: self.calls.into_calls(),
            refusal: filled(self.refusal),
            provider_data: self.provider_data,
        }
    }

    /// The reply, once all of it came.
    ///
    /// A call of which only a part came is never part of it. Only where the server says that the model had said all is
    /// what looks like half a call the model's own mistake.
    pub(super) fn finish(mut self) -> Result<ChatResponse, ModelError> {
        let (cut, how) = match self.ending.kind() {
            Kind::Failure => return Err(self.into_failure()),
            Kind::Interrupted => {
                let reason = format!("the server stopped it ({})", self.ending.reason());
                return Err(self.into_truncated(reason));
            }
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
    pub(super) fn into_truncated(self, reason: impl Into<String>) -> ModelError {
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
