use std::{collections::VecDeque, mem};

use haft_core::{
    ToolCall,
    content::Content,
    limits::SERVER_MESSAGE_BYTES,
    message::{AssistantMessage, ProviderData},
    model::{CallIds, ChatEvent, ChatResponse, ModelError},
    usage::Usage,
};

use super::{
    call_accumulator::{CallAccumulator, PieceKind, incomplete_call},
    finish_reason::{FinishKind, FinishState},
};
use crate::wire::{SurrogateJoiner, WireCall};

/// The queue to which the events of a streamed reply are pushed. `None` if the reply is not
/// streamed.
pub(crate) type EventSink<'w> = Option<&'w mut VecDeque<ChatEvent>>;

/// The accumulator for the text, the calls and the metadata of a reply, for both APIs. The
/// concatenated text and reasoning deltas equal the text and the reasoning of the final message.
#[derive(Debug, Default)]
pub(crate) struct Accumulator {
    pub(super) id: Option<String>,
    pub(super) model: Option<String>,
    pub(super) text: String,
    pub(super) reasoning: String,
    refusal: String,
    pub(super) calls: CallAccumulator,
    pub(super) finish_state: FinishState,
    pub(super) usage: Option<Usage>,
    pub(super) provider_data: ProviderData,
    /// The call ids that the server accepts. Its own ids are stored in `provider_data`.
    pub(super) call_ids: CallIds,
    joiners: Joiners,
    /// The number of bytes stored so far. A reply may have at most [`SERVER_MESSAGE_BYTES`].
    size: usize,
}

/// The [`SurrogateJoiner`]s for the text, the reasoning and the refusal of a reply.
#[derive(Debug, Default)]
struct Joiners {
    text: SurrogateJoiner,
    reasoning: SurrogateJoiner,
    refusal: SurrogateJoiner,
    /// `true` if the current event may contain private-use characters in place of lone surrogates.
    has_stand_ins: bool,
}

impl Accumulator {
    /// Creates an accumulator for a reply to requests with the ids `call_ids`.
    #[cfg(feature = "client")]
    pub(super) fn new(call_ids: CallIds) -> Self {
        Self { call_ids, ..Self::default() }
    }

    /// Sets whether the current event may contain private-use characters in place of lone
    /// surrogates. See [`SurrogateJoiner`].
    pub(super) fn set_has_stand_ins(&mut self, enabled: bool) {
        self.joiners.has_stand_ins = enabled;
        self.calls.set_has_stand_ins(enabled);
    }

    /// Drops a high surrogate that was held back at the end of the text. Called if the server
    /// repeats the whole text, which contains the surrogate again.
    pub(super) fn reset_text_joiner(&mut self) {
        self.joiners.text.reset();
    }

    /// Returns `true` if the reply has no text, no calls and no refusal.
    pub(super) fn has_no_answer(&self) -> bool {
        self.text.is_empty() && self.refusal.is_empty() && self.calls.is_empty()
    }

    /// Ends the text, the reasoning, the refusal and the calls of the reply. Adds U+FFFD for each
    /// surrogate that was held back.
    pub(super) fn flush(&mut self, sink: &mut EventSink<'_>) -> Result<(), ModelError> {
        self.set_has_stand_ins(false);
        let Joiners { text, reasoning, refusal, .. } = &mut self.joiners;
        let (text, reasoning, refusal) = (text.end(), reasoning.end(), refusal.end());
        self.add_text(text.unwrap_or_default(), sink)?;
        self.add_reasoning(reasoning.unwrap_or_default(), sink)?;
        self.add_refusal(refusal.unwrap_or_default())?;
        self.calls.flush(sink)
    }

    pub(super) fn add_text(&mut self, text: String, sink: &mut EventSink<'_>) -> Result<(), ModelError> {
        let text = self.joiners.text.join(text, self.joiners.has_stand_ins);
        self.try_add_size(text.len())?;
        self.text.push_str(&text);
        if let Some(events) = sink.as_mut().filter(|_| !text.is_empty()) {
            events.push_back(ChatEvent::TextDelta { text });
        }
        Ok(())
    }

    pub(super) fn add_reasoning(&mut self, text: String, sink: &mut EventSink<'_>) -> Result<(), ModelError> {
        let text = self.joiners.reasoning.join(text, self.joiners.has_stand_ins);
        self.try_add_size(text.len())?;
        self.reasoning.push_str(&text);
        if let Some(events) = sink.as_mut().filter(|_| !text.is_empty()) {
            events.push_back(ChatEvent::ReasoningDelta { text });
        }
        Ok(())
    }

    pub(super) fn add_refusal(&mut self, text: String) -> Result<(), ModelError> {
        let text = self.joiners.refusal.join(text, self.joiners.has_stand_ins);
        self.try_add_size(text.len())?;
        self.refusal.push_str(&text);
        Ok(())
    }

    /// Adds `call`, a piece of a tool call.
    pub(super) fn add_call(
        &mut self,
        call: WireCall,
        kind: PieceKind,
        sink: &mut EventSink<'_>,
    ) -> Result<(), ModelError> {
        let size = self.calls.add(call, kind, sink)?;
        self.try_add_size(size)
    }

    /// Adds `bytes` to the number of stored bytes. Returns an error if the sum exceeds
    /// [`SERVER_MESSAGE_BYTES`].
    pub(super) fn try_add_size(&mut self, bytes: usize) -> Result<(), ModelError> {
        self.size = self.size.saturating_add(bytes);
        if self.size > SERVER_MESSAGE_BYTES {
            return Err(ModelError::InvalidResponse(format!(
                "it is longer than {SERVER_MESSAGE_BYTES} bytes"
            )));
        }
        Ok(())
    }

    /// Returns the number of bytes stored so far.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// Returns `true` if the finish reason was received, and no content has followed it.
    #[cfg(feature = "client")]
    pub(crate) fn is_finished(&self) -> bool {
        self.finish_state.is_over()
    }

    /// Returns `true` if the reply is finished and has an answer. If the reply has only reasoning
    /// so far, the answer may still follow the finish reason.
    #[cfg(feature = "client")]
    pub(crate) fn is_answered(&self) -> bool {
        self.is_finished() && !self.has_no_answer()
    }

    /// Returns the message received so far.
    pub(super) fn into_message(mut self) -> AssistantMessage {
        self.call_ids.record_issued(self.calls.received_ids(), &mut self.provider_data);
        AssistantMessage {
            content: non_empty(self.text).map(Content::from).into_iter().collect(),
            reasoning: non_empty(self.reasoning),
            tool_calls: self.calls.into_calls(),
            refusal: non_empty(self.refusal),
            provider_data: self.provider_data,
        }
    }

    /// Returns the complete reply.
    ///
    /// A reply that ends inside a call is an error, unless the server sent a regular finish reason
    /// such as `stop` or `tool_calls`. After a regular finish reason, incomplete arguments are a
    /// mistake of the model, and validation reports them to the model. A call without a name is
    /// always an error, because it cannot be reported as a call.
    pub(super) fn finish(mut self) -> Result<ChatResponse, ModelError> {
        let kind = self.finish_state.kind();
        let cause = match kind {
            FinishKind::Failure => return Err(self.into_failure()),
            FinishKind::Malformed => {
                let reason = format!("the server could not read a call ({})", self.finish_state.reason());
                let generation = non_empty(self.into_message().text());
                return Err(ModelError::InvalidGeneration { reason, generation });
            }
            FinishKind::Interrupted => {
                let reason = format!("the server stopped it ({})", self.finish_state.reason());
                return Err(self.into_truncated(reason));
            }
            FinishKind::Complete if self.finish_state.is_over() => None,
            FinishKind::Limit => Some("a limit of tokens stopped it"),
            FinishKind::Filter => Some("a content filter stopped it"),
            FinishKind::Complete | FinishKind::Unknown => Some("it ended"),
        };
        let is_stopped = matches!(kind, FinishKind::Limit | FinishKind::Filter);
        let lacks_arguments = is_stopped && self.calls.lacks_arguments();
        let (id, model, usage) = (self.id.take(), self.model.take(), self.usage);
        let finish_state = mem::take(&mut self.finish_state);
        let message = self.into_message();
        let last = message.tool_calls.last().filter(|_| lacks_arguments);
        if let Some(cause) = cause
            && let Some(call) =
                last.or_else(|| incomplete_call(&message.tool_calls)).or_else(|| nameless_call(&message))
        {
            let name =
                if call.name.is_empty() { "a tool without a name" } else { &format!("\"{}\"", call.name) };
            let reason = format!("{cause} inside the call of {name}");
            return Err(ModelError::Truncated { reason, partial: Box::new(message) });
        }
        check_names(&message)?;
        if message.is_empty() && !is_stopped {
            return Err(ModelError::EmptyResponse);
        }
        let finish_reason = finish_state.into_reason(&message);
        let usage = usage.unwrap_or(Usage::one_request(0, 0));
        Ok(ChatResponse { message, finish_reason, usage, id, model })
    }

    /// Returns the error for a truncated reply, with the partial message.
    pub(super) fn into_truncated(self, reason: impl Into<String>) -> ModelError {
        ModelError::Truncated { reason: reason.into(), partial: Box::new(self.into_message()) }
    }

    fn into_failure(self) -> ModelError {
        let text = self.into_message().text();
        let body = format!("it stopped with an error after \"{}\"", crate::api_error::excerpt(&text));
        ModelError::Server { status: None, body, retry_after: None }
    }
}

/// Returns an error if a call of `message` has no name.
pub(super) fn check_names(message: &AssistantMessage) -> Result<(), ModelError> {
    match nameless_call(message) {
        Some(_) => Err(ModelError::InvalidResponse("a call in it has no name".to_owned())),
        None => Ok(()),
    }
}

fn nameless_call(message: &AssistantMessage) -> Option<&ToolCall> {
    message.tool_calls.iter().find(|call| call.name.is_empty())
}

fn non_empty(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}
