//! A model with reversible redaction: it receives placeholders in place of sensitive values.

mod detectors;
mod mapping;
mod message_strings;
mod reply_restorer;

use std::{ops::Range, sync::Arc};

use async_trait::async_trait;
use futures::stream::{self, BoxStream, StreamExt as _};
use haft_core::{
    ChatModel, Message,
    model::{ChatEvent, ChatRequest, ChatResponse, ModelError, ModelProfile, ResponseFormat},
};

use crate::model_layer::owned_stream;
use mapping::Mapping;
use message_strings::map_message;
use reply_restorer::ReplyRestorer;

type DetectFn = Arc<dyn Fn(&str) -> Vec<Range<usize>> + Send + Sync>;

/// Detectors of sensitive values, for
/// [`ModelMiddleware::redacted`](crate::ModelMiddleware::redacted).
///
/// Each distinct value gets a placeholder such as `[EMAIL_1]`. The number is the position among the
/// values of its kind, in the order of their first appearance in the messages of the request.
/// Values that only the instructions contain have numbers of their own, as in `[EMAIL_I1]`.
/// Therefore the placeholders in a conversation remain the same if its instructions change.
///
/// # Examples
///
/// A detector for invoice numbers. A crate such as `regex` finds the ranges of more complex values.
///
/// ```
/// use haft_middleware::redacted_model::ReversibleRedaction;
///
/// let redaction = ReversibleRedaction::new().emails().card_numbers().detect("INVOICE", |text| {
///     text.match_indices("INV-").map(|(start, _)| start..(start + 8).min(text.len())).collect()
/// });
/// ```
#[derive(Clone, Default)]
#[must_use]
pub struct ReversibleRedaction(Arc<Vec<Detector>>);

#[derive(Clone)]
struct Detector {
    kind: String,
    detect: DetectFn,
}

impl ReversibleRedaction {
    /// Creates a redaction without detectors.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a detector. `kind` is the name in its placeholders, such as `PHONE`: letters and digits
    /// are kept in upper case, and other characters become `_`.
    ///
    /// `detect` returns the byte ranges of the values in a text. Empty ranges, and ranges outside
    /// of the text or inside of a character, are ignored. Of overlapping ranges, the first applies,
    /// and the longest of those with the same start. The function is called once for each text of a
    /// message, with text that is not rendered for a provider yet. It must return the same ranges
    /// for the same text.
    ///
    /// # Restored values
    ///
    /// A value in the arguments of a call is escaped for a JSON string. A value in the text of a
    /// reply is escaped only if the text begins with `{`, or if the request has a JSON response
    /// format. In other text, for example JSON in a code block, a value with `"` or a line break
    /// makes the JSON invalid.
    pub fn detect(
        mut self,
        kind: impl AsRef<str>,
        detect: impl Fn(&str) -> Vec<Range<usize>> + Send + Sync + 'static,
    ) -> Self {
        let upper = |char: char| if char.is_ascii_alphanumeric() { char.to_ascii_uppercase() } else { '_' };
        let kind = kind.as_ref().chars().map(upper).collect();
        Arc::make_mut(&mut self.0).push(Detector { kind, detect: Arc::new(detect) });
        self
    }

    /// Adds a detector of e-mail addresses, with placeholders such as `[EMAIL_1]`.
    pub fn emails(self) -> Self {
        self.detect("EMAIL", detectors::emails)
    }

    /// Adds a detector of payment card numbers, with placeholders such as `[CARD_1]`. A number has
    /// 13 to 19 digits and a valid Luhn checksum. Single spaces or hyphens can separate its digits
    /// into groups of at least three digits. The last group can be shorter.
    pub fn card_numbers(self) -> Self {
        self.detect("CARD", detectors::card_numbers)
    }

    /// Returns the non-overlapping values in `text`: the range and the index of the detector.
    fn find(&self, text: &str) -> Vec<(Range<usize>, usize)> {
        let found = self.0.iter().enumerate().flat_map(|(index, detector)| {
            (detector.detect)(text).into_iter().map(move |range| (range, index))
        });
        let is_valid = |range: &Range<usize>| text.get(range.clone()).is_some_and(|value| !value.is_empty());
        let mut found: Vec<_> = found.filter(|(range, _)| is_valid(range)).collect();
        found.sort_by_key(|(range, _)| (range.start, std::cmp::Reverse(range.end)));
        let mut end = 0;
        found.retain(|(range, _)| {
            let is_free = range.start >= end;
            if is_free {
                end = range.end;
            }
            is_free
        });
        found
    }

    /// Returns `request` with placeholders, and their mapping. `None` if the request contains no
    /// value to redact.
    fn redact(&self, request: &ChatRequest) -> Option<(ChatRequest, Mapping)> {
        let mapping = Mapping::new(self, request.messages.iter(), request.instructions.as_ref())?;
        let redact = |message: &Arc<Message>| mapping.redact(self, message);
        let redacted = ChatRequest {
            instructions: request.instructions.as_ref().map(redact),
            messages: request.messages.iter().map(redact).collect(),
            ..request.clone()
        };
        Some((redacted, mapping))
    }
}

/// A model that receives placeholders in place of sensitive values, created by
/// [`ModelMiddleware::redacted`](crate::ModelMiddleware::redacted).
#[derive(Clone)]
pub struct RedactedModel {
    model: Arc<dyn ChatModel>,
    redaction: ReversibleRedaction,
}

impl RedactedModel {
    pub(super) fn new(model: Arc<dyn ChatModel>, redaction: ReversibleRedaction) -> Self {
        Self { model, redaction }
    }
}

#[async_trait]
impl ChatModel for RedactedModel {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ModelError> {
        let Some((redacted, mapping)) = self.redaction.redact(request) else {
            return self.model.chat(request).await;
        };
        let restorer = ReplyRestorer::new(mapping, is_json(request));
        match self.model.chat(&redacted).await {
            Ok(response) => Ok(restorer.restore_response(response)),
            Err(error) => Err(restorer.restore_error(error)),
        }
    }

    fn stream<'a>(&'a self, request: &'a ChatRequest) -> BoxStream<'a, Result<ChatEvent, ModelError>> {
        let Some((redacted, mapping)) = self.redaction.redact(request) else {
            return self.model.stream(request);
        };
        let mut restorer = ReplyRestorer::new(mapping, is_json(request));
        let events = owned_stream(Arc::clone(&self.model), redacted);
        events.flat_map(move |event| stream::iter(restorer.push(event))).boxed()
    }

    fn profile(&self) -> &ModelProfile {
        self.model.profile()
    }
}

/// Returns `true` if the text of the reply to `request` is JSON.
fn is_json(request: &ChatRequest) -> bool {
    request.response_format != ResponseFormat::Text
}

impl std::fmt::Debug for ReversibleRedaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kinds: Vec<_> = self.0.iter().map(|detector| &detector.kind).collect();
        f.debug_struct("ReversibleRedaction").field("kinds", &kinds).finish()
    }
}

impl std::fmt::Debug for RedactedModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedactedModel").field("redaction", &self.redaction).finish_non_exhaustive()
    }
}
