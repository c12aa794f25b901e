//! Conversion of structured replies back to the caller's schema, if the server received a modified
//! schema.

#[cfg(test)]
mod tests;

use std::{mem, sync::Arc};

use futures::stream::{self, Stream, StreamExt as _, TryStreamExt as _};

use super::response_schema::{ResponseSchema, ResponseSchemaOptions, WRAPPER_PROPERTY};
use crate::{
    Schema,
    content::Content,
    message::AssistantMessage,
    model::{ChatEvent, ChatRequest, ChatResponse, ModelError, ResponseFormat},
    schema::{RepairPolicy, json_text, parse_json, repair},
};

/// A converter for replies that follow a modified response schema. It extracts the value from the
/// wrapper object, and removes the nulls that strict mode requires in place of omitted properties.
#[derive(Debug)]
pub struct StructuredOutput {
    schema: Schema,
    sent: Arc<ResponseSchema>,
    unwrapper: Unwrapper,
}

impl StructuredOutput {
    /// Creates a converter for the reply to `request`. Returns `None` if the request has no
    /// response schema, or if the reply needs no conversion.
    pub fn new(request: &ChatRequest, options: ResponseSchemaOptions) -> Option<Self> {
        let ResponseFormat::JsonSchema { name, schema } = &request.response_format else { return None };
        let sent = ResponseSchema::of(schema, name, options);
        let needs_conversion = sent.is_wrapped || sent.is_strict();
        needs_conversion.then(|| Self { schema: schema.clone(), sent, unwrapper: Unwrapper::default() })
    }

    /// Converts `response`, a complete reply, back to the requested schema.
    pub fn restore_reply(&self, response: &mut ChatResponse) {
        let message = &mut response.message;
        self.unwrap(message);
        if message.refusal.is_none() && message.tool_calls.is_empty() {
            self.repair_text(message);
        }
    }

    /// Converts `events`, the events of a streamed reply. Nulls that stand for omitted properties
    /// remain in the deltas and are removed only from the final reply.
    pub fn events<'a>(
        mut self,
        events: impl Stream<Item = Result<ChatEvent, ModelError>> + Send + 'a,
    ) -> impl Stream<Item = Result<ChatEvent, ModelError>> + Send + 'a {
        events
            .map(move |event| match event {
                Ok(event) => Ok(stream::iter(self.convert_event(event).map(Ok))),
                Err(error) => Err(self.unwrap_partial(error)),
            })
            .try_flatten()
    }

    /// Converts the partial reply in `error` if `error` is [`ModelError::Truncated`]. Returns any
    /// other error unchanged.
    pub fn unwrap_partial(&self, mut error: ModelError) -> ModelError {
        if let ModelError::Truncated { partial, .. } = &mut error {
            self.unwrap(partial);
        }
        error
    }

    fn convert_event(&mut self, event: ChatEvent) -> impl Iterator<Item = ChatEvent> + use<> {
        let (text, event) = match event {
            ChatEvent::TextDelta { text } if self.sent.is_wrapped => (self.unwrapper.push(&text), None),
            ChatEvent::Finished(mut response) => {
                let last = mem::take(&mut self.unwrapper).finish();
                self.restore_reply(&mut response);
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

    /// Repairs the JSON text of `message` if it is invalid for the schema. In particular, removes
    /// nulls that stand for omitted properties.
    fn repair_text(&self, message: &mut AssistantMessage) {
        let Some(value) = parse_json(&message.text()).ok() else { return };
        let (value, repairs) = repair(&self.schema, value, RepairPolicy::Default);
        if !repairs.is_empty() {
            message.content = vec![Content::text(json_text(&value))];
        }
    }
}

/// The maximum length of text that is held back as the possible end of the wrapper object, in
/// bytes.
const MAX_HELD_BYTES: usize = 1024;

/// A parser that extracts the value from the wrapper object `{"value": …}` while the object is
/// streamed.
#[derive(Debug, Default)]
struct Unwrapper {
    /// The number of bytes of the prefix `{"value":` received so far.
    matched: usize,
    is_inside: bool,
    /// Received text that was not returned yet, because it may be the beginning or the end of the
    /// wrapper object.
    held: String,
    /// `true` if the reply does not begin with the wrapper object. All text of such a reply is
    /// returned unchanged.
    has_no_wrapper: bool,
}

impl Unwrapper {
    /// Adds `text`, the next piece of the reply. Returns the newly available text of the value.
    fn push(&mut self, text: &str) -> String {
        if self.has_no_wrapper {
            return text.to_owned();
        }
        if self.is_inside {
            return self.push_inside(text);
        }
        self.held.push_str(text);
        let beginning = format!("{{\"{WRAPPER_PROPERTY}\":");
        // JSON allows whitespace around the brace, the name and the colon.
        let gaps = [0, 1, beginning.len() - 1, beginning.len()];
        for (index, letter) in text.char_indices() {
            let next = beginning.get(self.matched..).and_then(|rest| rest.chars().next());
            if letter.is_ascii_whitespace() && gaps.contains(&self.matched) {
                continue;
            }
            if next.is_none() {
                self.is_inside = true;
                self.held.clear();
                return self.push_inside(text.get(index..).unwrap_or_default());
            }
            if next != Some(letter) {
                self.has_no_wrapper = true;
                return mem::take(&mut self.held);
            }
            self.matched += letter.len_utf8();
        }
        String::new()
    }

    /// Adds `text`, a piece after the prefix `{"value":`. Returns the newly available text of the
    /// value. A final brace, which may close the wrapper object, is held back, with the whitespace
    /// around it.
    fn push_inside(&mut self, text: &str) -> String {
        let mut all = mem::take(&mut self.held);
        all.push_str(text);
        let end = all.trim_ascii_end();
        let end = end.strip_suffix('}').unwrap_or(end).trim_ascii_end().len();
        // The limit is needed because some models generate endless whitespace.
        if all.len() - end <= MAX_HELD_BYTES {
            self.held = all.split_off(end);
        }
        all
    }

    /// Ends the reply. Returns the text that was held back, or an empty string if this text is the
    /// end of the wrapper object.
    fn finish(self) -> String {
        if self.is_inside && self.held.trim_ascii() == "}" { String::new() } else { self.held }
    }
}
