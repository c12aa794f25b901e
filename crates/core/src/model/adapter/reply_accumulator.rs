use std::{collections::VecDeque, mem};

use serde_json::Value;

use crate::{
    call::ToolCall,
    content::Content,
    limits::SERVER_MESSAGE_BYTES,
    message::{AssistantMessage, Citation, HostedCall, ProviderData},
    model::{CallIds, CallPiece, ChatEvent, ChatResponse, ModelError},
    usage::Usage,
};

use super::{
    finish_state::{FinishKind, FinishState},
    in_band_error::excerpt,
    reply_calls::{PieceKind, ReplyCalls, incomplete_call},
    surrogates::SurrogateJoiner,
};

/// The queue to which the events of a streamed reply are pushed. `None` if the reply is not
/// streamed.
pub type EventSink<'w> = Option<&'w mut VecDeque<ChatEvent>>;

/// The accumulator for the text, the calls and the metadata of a reply. The concatenated text and
/// reasoning deltas equal the text and the reasoning of the final message.
///
/// A reply is complete, or it is an error: [`finish`](Self::finish) returns no reply that was cut
/// inside a call.
///
/// # Examples
///
/// ```
/// use std::collections::VecDeque;
///
/// use haft_core::model::{ChatEvent, FinishReason, adapter::ReplyAccumulator};
///
/// let mut events = VecDeque::new();
/// let mut reply = ReplyAccumulator::default();
/// reply.add_text("It is ".to_owned(), &mut Some(&mut events))?;
/// reply.add_text("42.".to_owned(), &mut Some(&mut events))?;
/// reply.finish_state.set_reason("end_turn".to_owned());
/// reply.flush(&mut Some(&mut events))?;
/// let reply = reply.finish()?;
/// assert_eq!((reply.message.text().as_str(), reply.finish_reason), ("It is 42.", FinishReason::Stop));
/// assert_eq!(events.pop_front(), Some(ChatEvent::TextDelta { text: "It is ".to_owned() }));
/// # Ok::<(), haft_core::model::ModelError>(())
/// ```
#[derive(Debug, Default)]
pub struct ReplyAccumulator {
    /// The id of the reply, from the server.
    pub id: Option<String>,
    /// The name of the model, from the server.
    pub model: Option<String>,
    text: String,
    media: Vec<Content>,
    reasoning: String,
    refusal: String,
    /// The tool calls.
    pub calls: ReplyCalls,
    hosted_calls: Vec<HostedCall>,
    citations: Vec<Citation>,
    /// The finish reason.
    pub finish_state: FinishState,
    /// The usage, from the server.
    pub usage: Option<Usage>,
    /// The opaque data of the message.
    pub provider_data: ProviderData,
    /// The call ids that the server accepts. Its own ids are stored in `provider_data`.
    call_ids: CallIds,
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

impl ReplyAccumulator {
    /// Creates an accumulator for a reply to requests with the ids `call_ids`.
    pub fn new(call_ids: CallIds) -> Self {
        Self { call_ids, ..Self::default() }
    }

    /// Sets whether the current event may contain private-use characters in place of lone
    /// surrogates. See [`SurrogateJoiner`].
    pub fn set_has_stand_ins(&mut self, enabled: bool) {
        self.joiners.has_stand_ins = enabled;
        self.calls.set_has_stand_ins(enabled);
    }

    /// Drops a high surrogate that was held back at the end of the text. Called if the server
    /// repeats the whole text, which contains the surrogate again.
    pub fn reset_text_joiner(&mut self) {
        self.joiners.text.reset();
    }

    /// Returns `true` if the reply has no text, no media, no calls and no refusal.
    pub fn has_no_answer(&self) -> bool {
        let has_content = !self.text.is_empty() || !self.media.is_empty();
        !has_content && self.refusal.is_empty() && self.calls.is_empty()
    }

    /// Ends the text, the reasoning, the refusal and the calls of the reply. Adds U+FFFD for each
    /// surrogate that was held back.
    pub fn flush(&mut self, sink: &mut EventSink<'_>) -> Result<(), ModelError> {
        self.set_has_stand_ins(false);
        let Joiners { text, reasoning, refusal, .. } = &mut self.joiners;
        let (text, reasoning, refusal) = (text.end(), reasoning.end(), refusal.end());
        self.add_text(text.unwrap_or_default(), sink)?;
        self.add_reasoning(reasoning.unwrap_or_default(), sink)?;
        self.add_refusal(refusal.unwrap_or_default())?;
        self.calls.flush(sink)
    }

    /// Returns the text so far.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the reasoning so far.
    pub fn reasoning(&self) -> &str {
        &self.reasoning
    }

    /// Adds a piece of the text.
    ///
    /// # Errors
    ///
    /// Fails with [`ModelError::InvalidResponse`] if the reply has more than
    /// [`SERVER_MESSAGE_BYTES`]. All methods that add something fail in this way.
    pub fn add_text(&mut self, text: String, sink: &mut EventSink<'_>) -> Result<(), ModelError> {
        let text = self.joiners.text.join(text, self.joiners.has_stand_ins);
        self.try_add_size(text.len())?;
        self.text.push_str(&text);
        if let Some(events) = sink.as_mut().filter(|_| !text.is_empty()) {
            events.push_back(ChatEvent::TextDelta { text });
        }
        Ok(())
    }

    /// Adds an image, an audio clip or a file that the model generated. In the message, media
    /// follow the text.
    ///
    /// # Errors
    ///
    /// As [`add_text`](Self::add_text).
    pub fn add_media(&mut self, media: Content) -> Result<(), ModelError> {
        self.try_add_size(media.media_len())?;
        self.media.push(media);
        Ok(())
    }

    /// Adds a piece of the reasoning.
    ///
    /// # Errors
    ///
    /// As [`add_text`](Self::add_text).
    pub fn add_reasoning(&mut self, text: String, sink: &mut EventSink<'_>) -> Result<(), ModelError> {
        let text = self.joiners.reasoning.join(text, self.joiners.has_stand_ins);
        self.try_add_size(text.len())?;
        self.reasoning.push_str(&text);
        if let Some(events) = sink.as_mut().filter(|_| !text.is_empty()) {
            events.push_back(ChatEvent::ReasoningDelta { text });
        }
        Ok(())
    }

    /// Adds a piece of the model's explanation why it declined to answer.
    ///
    /// # Errors
    ///
    /// As [`add_text`](Self::add_text).
    pub fn add_refusal(&mut self, text: String) -> Result<(), ModelError> {
        let text = self.joiners.refusal.join(text, self.joiners.has_stand_ins);
        self.try_add_size(text.len())?;
        self.refusal.push_str(&text);
        Ok(())
    }

    /// Adds a call of a hosted tool that the provider has started. A call that never finishes is
    /// part of the message, without an output.
    ///
    /// # Errors
    ///
    /// As [`add_text`](Self::add_text).
    pub fn start_hosted_call(
        &mut self,
        call: HostedCall,
        sink: &mut EventSink<'_>,
    ) -> Result<(), ModelError> {
        self.try_add_size(hosted_call_size(&call))?;
        if let Some(events) = sink {
            events.push_back(ChatEvent::HostedCallStarted { id: call.id.clone(), tool: call.tool.clone() });
        }
        self.hosted_calls.push(call);
        Ok(())
    }

    /// Replaces the started call with the same id by `call`, which has its output. Adds `call` if it
    /// was not started.
    ///
    /// # Errors
    ///
    /// As [`add_text`](Self::add_text).
    pub fn finish_hosted_call(
        &mut self,
        call: HostedCall,
        sink: &mut EventSink<'_>,
    ) -> Result<(), ModelError> {
        let position = self.hosted_calls.iter().rposition(|started| started.id == call.id);
        if position.is_none() {
            self.start_hosted_call(HostedCall::new(&call.id, &call.tool), sink)?;
        }
        self.try_add_size(hosted_call_size(&call))?;
        if let Some(events) = sink {
            events.push_back(ChatEvent::HostedCallFinished { call: call.clone() });
        }
        let position = position.or(self.hosted_calls.len().checked_sub(1));
        if let Some(started) = position.and_then(|position| self.hosted_calls.get_mut(position)) {
            *started = call;
        }
        Ok(())
    }

    /// Returns the calls of hosted tools so far.
    pub fn hosted_calls(&self) -> &[HostedCall] {
        &self.hosted_calls
    }

    /// Adds a citation. A citation that equals an earlier one is ignored.
    ///
    /// # Errors
    ///
    /// As [`add_text`](Self::add_text).
    pub fn add_citation(&mut self, citation: Citation) -> Result<(), ModelError> {
        if self.citations.contains(&citation) {
            return Ok(());
        }
        let texts = [&citation.title, &citation.url, &citation.file_id, &citation.quote];
        self.try_add_size(texts.into_iter().flatten().map(String::len).sum::<usize>() + 64)?;
        self.citations.push(citation);
        Ok(())
    }

    /// Adds `call`, a piece of a tool call. `extra` is opaque data that is sent back with the call.
    ///
    /// # Errors
    ///
    /// As [`add_text`](Self::add_text), and if the reply has too many calls or too long arguments.
    pub fn add_call(
        &mut self,
        call: CallPiece,
        extra: Option<Value>,
        kind: PieceKind,
        sink: &mut EventSink<'_>,
    ) -> Result<(), ModelError> {
        let size = self.calls.add(call, extra, kind, sink)?;
        self.try_add_size(size)
    }

    /// Adds `bytes` to the number of stored bytes. Returns an error if the sum exceeds
    /// [`SERVER_MESSAGE_BYTES`].
    pub fn try_add_size(&mut self, bytes: usize) -> Result<(), ModelError> {
        self.size = self.size.saturating_add(bytes);
        if self.size > SERVER_MESSAGE_BYTES {
            return Err(ModelError::InvalidResponse(format!(
                "it is longer than {SERVER_MESSAGE_BYTES} bytes"
            )));
        }
        Ok(())
    }

    /// Returns the number of bytes stored so far.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Returns `true` if the finish reason was received, and no content has followed it.
    pub fn is_finished(&self) -> bool {
        self.finish_state.is_over()
    }

    /// Returns `true` if the reply is finished and has an answer. If the reply has only reasoning
    /// so far, the answer may still follow the finish reason.
    pub fn is_answered(&self) -> bool {
        self.is_finished() && !self.has_no_answer()
    }

    /// Returns the message received so far.
    pub fn into_message(mut self) -> AssistantMessage {
        self.call_ids.record_issued(self.calls.received_ids(), &mut self.provider_data);
        AssistantMessage {
            content: non_empty(self.text).map(Content::from).into_iter().chain(self.media).collect(),
            reasoning: non_empty(self.reasoning),
            tool_calls: self.calls.into_calls(),
            refusal: non_empty(self.refusal),
            hosted_calls: self.hosted_calls,
            citations: self.citations,
            provider_data: self.provider_data,
        }
    }

    /// Returns the complete reply.
    ///
    /// A reply that ends inside a call is an error, unless the server sent a regular finish reason
    /// such as `stop` or `tool_calls`. After a regular finish reason, incomplete arguments are a
    /// mistake of the model, and validation reports them to the model. A call without a name is
    /// always an error, because it cannot be reported as a call.
    ///
    /// # Errors
    ///
    /// Fails with the error for the reply that was cut, empty or malformed.
    pub fn finish(mut self) -> Result<ChatResponse, ModelError> {
        let kind = self.finish_state.kind();
        let cause = match kind {
            FinishKind::Failure => return Err(self.into_failure()),
            FinishKind::Malformed => {
                let reason = format!("the server could not use it ({})", self.finish_state.describe());
                let generation = non_empty(self.into_message().text());
                return Err(ModelError::InvalidGeneration { reason, generation });
            }
            FinishKind::Rejected => {
                let body = format!("the server stopped the reply ({})", self.finish_state.describe());
                return Err(ModelError::Rejected { status: 400, body });
            }
            FinishKind::Interrupted => {
                let reason = format!("the server stopped it ({})", self.finish_state.describe());
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
    pub fn into_truncated(self, reason: impl Into<String>) -> ModelError {
        ModelError::Truncated { reason: reason.into(), partial: Box::new(self.into_message()) }
    }

    fn into_failure(self) -> ModelError {
        let text = self.into_message().text();
        let body = format!("it stopped with an error after \"{}\"", excerpt(&text));
        ModelError::Server { status: None, body, retry_after: None }
    }
}

/// Returns an error if a call of `message` has no name.
pub fn check_names(message: &AssistantMessage) -> Result<(), ModelError> {
    match nameless_call(message) {
        Some(_) => Err(ModelError::InvalidResponse("a call in it has no name".to_owned())),
        None => Ok(()),
    }
}

fn hosted_call_size(call: &HostedCall) -> usize {
    let data = [&call.input, &call.output].into_iter().filter(|it| !it.is_null());
    call.id.len() + call.tool.len() + data.map(|it| it.to_string().len()).sum::<usize>() + 64
}

fn nameless_call(message: &AssistantMessage) -> Option<&ToolCall> {
    message.tool_calls.iter().find(|call| call.name.is_empty())
}

fn non_empty(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}
