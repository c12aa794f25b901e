//! Hears the thought and the answer in a JSON object that is still being written.

mod strings;

use haft_core::ChatEvent;

use super::{
    super::{Delta, FINISH, Listener},
    key,
};
use strings::Strings;

/// Listens to one reply.
pub(super) struct JsonListener {
    strings: Strings,
    tool_name: String,
    /// An answer that is data has no text of its own.
    outputs: bool,
}

impl JsonListener {
    pub(super) fn new(outputs: bool) -> Self {
        Self { strings: Strings::default(), tool_name: String::new(), outputs }
    }

    fn hear_text(&mut self, text: &str) -> Vec<Delta> {
        let (mut thought, mut answer) = (String::new(), String::new());
        for written in text.chars() {
            let Some((path, said)) = self.strings.take(written) else { continue };
            let ends = self.tool_name == FINISH && !self.outputs;
            match path {
                [top] if top == key::THOUGHT => thought.push(said),
                [top] if top == key::TOOL_NAME => self.tool_name.push(said),
                [top, argument] if ends && top == key::TOOL_ARGS && argument == key::ANSWER => {
                    answer.push(said);
                }
                _ => {}
            }
        }
        let (thought, answer) = (Delta::Thought(thought), Delta::Text(answer));
        [thought, answer].into_iter().filter(|delta| !delta.is_empty()).collect()
    }
}

impl Listener for JsonListener {
    fn hear(&mut self, event: &ChatEvent) -> Vec<Delta> {
        match event {
            ChatEvent::TextDelta { text } => self.hear_text(text),
            ChatEvent::ReasoningDelta { text } => vec![Delta::Thought(text.clone())],
            _ => Vec::new(),
        }
    }
}
