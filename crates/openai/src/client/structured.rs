//! Replies of a schema that their server does not take as it is.

#[cfg(test)]
mod tests;

use std::{mem, sync::Arc};

use futures::stream::{self, Stream, StreamExt as _, TryStreamExt as _};
use haft_core::{
    Schema,
    content::Content,
    message::AssistantMessage,
    model::{ChatEvent, ChatRequest, ChatResponse, ModelError, ResponseFormat},
    schema::{RepairPolicy, repair},
};
use serde_json::Value;

use super::provider::Quirks;
use crate::format::{AnswerSchema, PROPERTY};

/// Makes of the reply what was asked for, where the server was asked for something else: an object around it, or null for
/// what is left out.
pub(super) struct Structured {
    schema: Schema,
    sent: Arc<AnswerSchema>,
    unwrapper: Unwrapper,
}

impl Structured {
    /// `None` where the reply is what was asked for.
    pub(super) fn of(request: &ChatRequest, quirks: &Quirks) -> Option<Self> {
        let ResponseFormat::JsonSchema { name, schema } = &request.response_format else { return None };
        let sent = AnswerSchema::of(schema, name, quirks.answers());
        let is_other = sent.is_wrapped || sent.is_strict();
        is_other.then(|| Self { schema: schema.clone(), sent, unwrapper: Unwrapper::default() })
    }

    /// A whole reply as it was asked for.
    pub(super) fn restore(&self, response: &mut ChatResponse) {
        let message = &mut response.message;
        self.unwrap(message);
        if message.refusal.is_none() && message.tool_calls.is_empty() {
            self.fill_gaps(message);
        }
    }

    /// The events of a reply as it was asked for. Their text differs from that of the reply where null is taken as absent.
    pub(super) fn events<'a>(
        mut self,
        events: impl Stream<Item = Result<ChatEvent, ModelError>> + Send + 'a,
    ) -> impl Stream<Item = Result<ChatEvent, ModelError>> + Send + 'a {
        events
            .map(move |event| match event {
                Ok(event) => Ok(stream::iter(self.take(event).map(Ok))),
                Err(error) => Err(self.cut(error)),
            })
            .try_flatten()
    }

    /// An error with what came until then as it was asked for.
    pub(super) fn cut(&self, mut error: ModelError) -> ModelError {
        if let ModelError::Truncated { partial, .. } = &mut error {
            self.unwrap(partial);
        }
        error
    }

    fn take(&mut self, event: ChatEvent) -> impl Iterator<Item = ChatEvent> + use<> {
        let (text, event) = match event {
            ChatEvent::TextDelta { text } if self.sent.is_wrapped => (self.unwrapper.push(&text), None),
            ChatEvent::Finished(mut response) => {
                let last = mem::take(&mut self.unwrapper).finish();
                self.restore(&mut response);
                (last, Some(ChatEvent::Finished(response)))
            }
            other => (String::new(), Some(other)),
        };
        let text = Some(text).filter(|text| !text.is_empty()).map(|text| ChatEvent::TextDelta { text });
        text.into_iter().chain(event)
    }

    fn unwrap(&self, message: &mut AssistantMessage) {
        if self.sent.is_wrapped && !message.content.is_empty() {
            let mut unwrapper = Unwrapper::default();
            let text = unwrapper.push(&message.text()) + &unwrapper.finish();
            message.content =
                Some(text).filter(|text| !text.is_empty()).map(Content::text).into_iter().collect();
        }
    }

    /// Leaves out what is null since it had to be there.
    fn fill_gaps(&self, message: &mut AssistantMessage) {
        let Some(value) = serde_json::from_str::<Value>(&message.text()).ok() else { return };
        let (value, repairs) = repair(&self.schema, value, RepairPolicy::Default);
        if !repairs.is_empty() {
            message.content = vec![Content::text(value.to_string())];
        }
    }
}

/// How much of what may be the end of an object is held back, in bytes.
const LONGEST_END: usize = 1024;

/// Takes a value out of the object that it is the only property of, while that is written.
#[derive(Debug, Default)]
struct Unwrapper {
    /// How much of the beginning has come; all of it, and the value has begun.
    place: usize,
    is_inside: bool,
    /// What is not told yet: the beginning of the object, or what may be its end.
    held: String,
    /// The reply is no such object, and told as it is.
    is_other: bool,
}

impl Unwrapper {
    /// The text of the value in more text of the object.
    fn push(&mut self, text: &str) -> String {
        if self.is_other {
            return text.to_owned();
        }
        if self.is_inside {
            return self.inside(text);
        }
        self.held.push_str(text);
        let beginning = format!("{{\"{PROPERTY}\":");
        // Between the brace, the name and the colon may be blanks.
        let gaps = [0, 1, beginning.len() - 1, beginning.len()];
        for (index, letter) in text.char_indices() {
            let next = beginning.get(self.place..).and_then(|rest| rest.chars().next());
            if letter.is_ascii_whitespace() && gaps.contains(&self.place) {
                continue;
            }
            if next.is_none() {
                self.is_inside = true;
                self.held.clear();
                return self.inside(text.get(index..).unwrap_or_default());
            }
            if next != Some(letter) {
                self.is_other = true;
                return mem::take(&mut self.held);
            }
            self.place += letter.len_utf8();
        }
        String::new()
    }

    /// All but a brace that may be the last one, and the blanks around it.
    fn inside(&mut self, text: &str) -> String {
        let mut all = mem::take(&mut self.held);
        all.push_str(text);
        let end = all.trim_ascii_end();
        let end = end.strip_suffix('}').unwrap_or(end).trim_ascii_end().len();
        // Some models write blanks without an end.
        if all.len() - end <= LONGEST_END {
            self.held = all.split_off(end);
        }
        all
    }

    /// What was held back and is no end of the object.
    fn finish(self) -> String {
        if self.is_inside && self.held.trim_ascii() == "}" { String::new() } else { self.held }
    }
}
