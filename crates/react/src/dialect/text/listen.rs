//! Parser for the thought and the answer in an incomplete text.

use haft_core::{Schema, model::ChatEvent};

use super::{
    super::{Delta, FINISH, Listener, step::Told},
    Text,
    read::called,
    sections::Sections,
    spoken::Spoken,
};

/// The parser for one reply. Ambiguous text is emitted at its end.
pub(super) struct TextListener {
    sections: Sections,
    told: Told,
    /// Number of emitted bytes of the thought and of the answer.
    thought: usize,
    answer: usize,
    spoken: Spoken,
    /// The schema of the answer, if it is data. Such an answer emits no text.
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
            // May be an object that contains the answer.
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

/// The new text, without leading and trailing space of the whole.
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
