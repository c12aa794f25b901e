//! Hears the thought and the answer in a text that is still being written.

use haft_core::{ChatEvent, Schema};

use super::{
    super::{Delta, FINISH, Listener, step::Told},
    Text,
    read::called,
    sections::Sections,
    spoken::Spoken,
};

/// Listens to one reply. What may yet turn out to be something else is told at its end.
pub(super) struct TextListener {
    sections: Sections,
    told: Told,
    /// How much was told of the thought and of the answer as they are written, in bytes.
    thought: usize,
    answer: usize,
    spoken: Spoken,
    /// An answer that is data has no text of its own.
    outputs: Option<Schema>,
}

impl TextListener {
    pub(super) fn new(outputs: Option<&Schema>) -> Self {
        Self {
            sections: Sections::default(),
            told: Told::default(),
            thought: 0,
            answer: 0,
            spoken: Spoken::default(),
            outputs: outputs.cloned(),
        }
    }

    fn emit_parts(&mut self) {
        let parts = self.sections.parts();
        self.told.thought(more(&parts.thought, &mut self.thought));
        if self.outputs.is_some() {
            return;
        }
        match parts.actions.as_slice() {
            // It may be an object with the answer in it.
            [] if parts.answer.trim_start().starts_with(['{', '`']) => {}
            [] => self.told.answer(more(&parts.answer, &mut self.answer)),
            [action] if is_end(action) => self.told.answer(&self.spoken.more(&parts.arguments)),
            _ => {}
        }
    }
}

impl Listener for TextListener {
    fn push(&mut self, event: &ChatEvent) -> Vec<Delta> {
        match event {
            ChatEvent::TextDelta { text } => {
                self.sections.take(text);
                self.emit_parts();
            }
            ChatEvent::ReasoningDelta { text } => self.told.reasoning(text),
            ChatEvent::Finished(response) => {
                self.sections.end();
                self.emit_parts();
                self.told.rest::<Text>(response, self.outputs.as_ref());
            }
            _ => {}
        }
        self.told.deltas()
    }
}

/// What came since the last time, without the space around the whole.
fn more<'t>(text: &'t str, told: &mut usize) -> &'t str {
    let more = text.trim().get(*told..).unwrap_or_default();
    *told += more.len();
    more
}

fn is_end(action: &str) -> bool {
    let (name, behind) = called(action);
    name.eq_ignore_ascii_case(FINISH) && behind.is_empty()
}

#[cfg(test)]
mod tests;
