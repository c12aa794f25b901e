//! Parser for the thought and the answer in an incomplete JSON object.

mod strings;

use haft_core::{Schema, model::ChatEvent};

use super::{
    super::{
        Delta, FINISH, Listener,
        step::{ANSWER, Told},
    },
    Json, key,
};

pub(in super::super) use strings::Strings;

/// The parser for one reply.
pub(super) struct JsonListener {
    strings: Strings,
    tool_name: String,
    told: Told,
    /// The schema of the answer, if it is data. Such an answer emits no text.
    outputs: Option<Schema>,
}

impl JsonListener {
    pub(super) fn new(outputs: Option<&Schema>) -> Self {
        Self {
            strings: Strings::default(),
            tool_name: String::new(),
            told: Told::default(),
            outputs: outputs.cloned(),
        }
    }

    fn push_text(&mut self, text: &str) {
        for written in text.chars() {
            let Some((path, said)) = self.strings.take(written) else { continue };
            let ends = self.tool_name == FINISH && self.outputs.is_none();
            match path {
                [top] if top == key::THOUGHT => self.told.thought(said.encode_utf8(&mut [0; 4])),
                [top] if top == key::TOOL_NAME => self.tool_name.push(said),
                [top, argument] if ends && top == key::TOOL_ARGS && argument == ANSWER => {
                    self.told.answer(said.encode_utf8(&mut [0; 4]));
                }
                _ => {}
            }
        }
    }
}

impl Listener for JsonListener {
    fn push(&mut self, event: &ChatEvent) -> Vec<Delta> {
        match event {
            ChatEvent::TextDelta { text } => self.push_text(text),
            ChatEvent::ReasoningDelta { text } => self.told.reasoning(text),
            ChatEvent::Finished(response) => self.told.rest::<Json>(response, self.outputs.as_ref()),
            _ => {}
        }
        self.told.deltas()
    }
}
