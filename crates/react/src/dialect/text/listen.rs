//! Hears the thought and the answer in a text that is still being written.

use haft_core::{ChatEvent, ChatResponse, Schema};

use super::{
    super::{
        Delta, FINISH, Listener,
        json::Strings,
        step::{self, ANSWER},
    },
    Text,
    sections::{Section, Sections},
};

/// Listens to one reply.
pub(super) struct TextListener {
    sections: Sections,
    heard: Heard,
    /// An answer that is data has no text of its own.
    outputs: Option<Schema>,
}

impl TextListener {
    pub(super) fn new(outputs: Option<&Schema>) -> Self {
        let heard = Heard { has_outputs: outputs.is_some(), ..Heard::default() };
        Self { sections: Sections::default(), heard, outputs: outputs.cloned() }
    }

    /// What was not heard, because the reply has not quite the form that was asked for: all of it at its end.
    fn hear_end(&mut self, response: &ChatResponse) {
        let Self { sections, heard, outputs } = self;
        sections.end(|section, text| heard.take(section, text));
        let reply = step::fold::<Text>(response.clone(), outputs.as_ref());
        if reply.problem.is_some() {
            return;
        }
        let message = reply.message;
        if !heard.thought.has_begun {
            heard.thought.take(message.reasoning.as_deref().unwrap_or_default());
        }
        if message.tool_calls.is_empty() && !heard.has_outputs && !heard.answer.has_begun {
            heard.answer.take(&message.text());
        }
    }
}

impl Listener for TextListener {
    fn hear(&mut self, event: &ChatEvent) -> Vec<Delta> {
        match event {
            ChatEvent::TextDelta { text } => {
                let Self { sections, heard, .. } = self;
                sections.take(text, |section, text| heard.take(section, text));
            }
            ChatEvent::ReasoningDelta { text } => self.heard.thought.take(text),
            ChatEvent::Finished(response) => self.hear_end(response),
            _ => {}
        }
        self.heard.deltas()
    }
}

/// What was heard so far.
#[derive(Default)]
struct Heard {
    thought: Words,
    answer: Words,
    action: String,
    arguments: Strings,
    has_outputs: bool,
}

impl Heard {
    fn take(&mut self, section: Section, text: &str) {
        match section {
            Section::Thought => self.thought.take(text),
            Section::Action => self.action.push_str(text),
            Section::Arguments if !self.has_outputs && is_end(&self.action) => {
                for written in text.chars() {
                    if let Some(([name], said)) = self.arguments.take(written)
                        && name == ANSWER
                    {
                        self.answer.take(said.encode_utf8(&mut [0; 4]));
                    }
                }
            }
            Section::Answer if !self.has_outputs => self.answer.take(text),
            _ => {}
        }
    }

    fn deltas(&mut self) -> Vec<Delta> {
        let told = [Delta::Thought(self.thought.tell()), Delta::Text(self.answer.tell())];
        told.into_iter().filter(|delta| !delta.is_empty()).collect()
    }
}

fn is_end(action: &str) -> bool {
    action.trim_matches(|letter: char| !letter.is_ascii_alphanumeric()).eq_ignore_ascii_case(FINISH)
}

/// Words without the space around them.
#[derive(Default)]
struct Words {
    has_begun: bool,
    /// Space that is told if more comes.
    space: String,
    untold: String,
}

impl Words {
    fn take(&mut self, text: &str) {
        for written in text.chars() {
            if written.is_whitespace() {
                if self.has_begun {
                    self.space.push(written);
                }
                continue;
            }
            self.has_begun = true;
            self.untold.push_str(&self.space);
            self.space.clear();
            self.untold.push(written);
        }
    }

    fn tell(&mut self) -> String {
        std::mem::take(&mut self.untold)
    }
}
