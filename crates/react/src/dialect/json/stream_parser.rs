//! Streams the thought and the answer of a JSON step before the step is complete.

mod string_scanner;

use haft_core::{Schema, model::ChatEvent};

use super::{
    super::{
        FINISH, ReplyDelta, StreamParser,
        step::{ANSWER_KEY, DeltaBuffer},
    },
    JsonFormat, key,
};

pub(in super::super) use string_scanner::StringScanner;

/// The streaming parser of [`JsonReact`](super::JsonReact), for one reply.
pub(super) struct JsonStreamParser {
    strings: StringScanner,
    tool_name: String,
    deltas: DeltaBuffer,
    /// The schema of the answer, or `None` if the answer is plain text. A structured answer is not
    /// streamed.
    outputs: Option<Schema>,
}

impl JsonStreamParser {
    pub(super) fn new(outputs: Option<&Schema>) -> Self {
        Self {
            strings: StringScanner::default(),
            tool_name: String::new(),
            deltas: DeltaBuffer::default(),
            outputs: outputs.cloned(),
        }
    }

    fn push_text(&mut self, text: &str) {
        for character in text.chars() {
            let Some((path, decoded)) = self.strings.push(character) else { continue };
            let is_finish = self.tool_name == FINISH && self.outputs.is_none();
            match path {
                [top] if top == key::THOUGHT => self.deltas.push_thought(decoded.encode_utf8(&mut [0; 4])),
                [top] if top == key::TOOL_NAME => self.tool_name.push(decoded),
                [top, argument] if is_finish && top == key::TOOL_ARGS && argument == ANSWER_KEY => {
                    self.deltas.push_answer(decoded.encode_utf8(&mut [0; 4]));
                }
                _ => {}
            }
        }
    }
}

impl StreamParser for JsonStreamParser {
    fn push(&mut self, event: &ChatEvent) -> Vec<ReplyDelta> {
        match event {
            ChatEvent::TextDelta { text } => self.push_text(text),
            ChatEvent::ReasoningDelta { text } => self.deltas.push_reasoning(text),
            ChatEvent::Finished(response) => {
                self.deltas.complete::<JsonFormat>(response, self.outputs.as_ref());
            }
            _ => {}
        }
        self.deltas.take()
    }
}
