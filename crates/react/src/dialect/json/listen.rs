//! Hears the thought and the answer in a JSON object that is still being written.

mod strings;

use haft_core::{ChatEvent, ChatResponse, Schema};

use super::{
    super::{
        Delta, FINISH, Listener,
        step::{self, ANSWER},
    },
    Json, key,
};

pub(in super::super) use strings::Strings;

/// Listens to one reply.
pub(super) struct JsonListener {
    strings: Strings,
    tool_name: String,
    /// An answer that is data has no text of its own.
    outputs: Option<Schema>,
    has_thought: bool,
    has_answer: bool,
}

impl JsonListener {
    pub(super) fn new(outputs: Option<&Schema>) -> Self {
        Self {
            strings: Strings::default(),
            tool_name: String::new(),
            outputs: outputs.cloned(),
            has_thought: false,
            has_answer: false,
        }
    }

    fn hear_text(&mut self, text: &str) -> Vec<Delta> {
        let (mut thought, mut answer) = (String::new(), String::new());
        for written in text.chars() {
            let Some((path, said)) = self.strings.take(written) else { continue };
            let ends = self.tool_name == FINISH && self.outputs.is_none();
            match path {
                [top] if top == key::THOUGHT => thought.push(said),
                [top] if top == key::TOOL_NAME => self.tool_name.push(said),
                [top, argument] if ends && top == key::TOOL_ARGS && argument == ANSWER => {
                    answer.push(said);
                }
                _ => {}
            }
        }
        self.tell(thought, answer)
    }

    /// What was not heard, because the reply has not quite the form that was asked for: all of it at its end.
    fn hear_end(&mut self, response: &ChatResponse) -> Vec<Delta> {
        let is_call = !self.tool_name.is_empty() && self.tool_name != FINISH;
        if self.has_answer || (is_call && self.has_thought) {
            return Vec::new();
        }
        let reply = step::fold::<Json>(response.clone(), self.outputs.as_ref());
        if reply.problem.is_some() {
            return Vec::new();
        }
        let message = reply.message;
        let thought = message.reasoning.clone().filter(|_| !self.has_thought).unwrap_or_default();
        let is_text = message.tool_calls.is_empty() && self.outputs.is_none();
        self.tell(thought, if is_text { message.text() } else { String::new() })
    }

    fn tell(&mut self, thought: String, answer: String) -> Vec<Delta> {
        let (thought, answer) = (Delta::Thought(thought), Delta::Text(answer));
        self.has_thought |= !thought.is_empty();
        self.has_answer |= !answer.is_empty();
        [thought, answer].into_iter().filter(|delta| !delta.is_empty()).collect()
    }
}

impl Listener for JsonListener {
    fn hear(&mut self, event: &ChatEvent) -> Vec<Delta> {
        match event {
            ChatEvent::TextDelta { text } => self.hear_text(text),
            ChatEvent::ReasoningDelta { text } => self.tell(text.clone(), String::new()),
            ChatEvent::Finished(response) => self.hear_end(response),
            _ => Vec::new(),
        }
    }
}
