//! Streams the thought and the answer of a plain text step before the step is complete.

use haft_core::{Schema, model::ChatEvent};

use super::{
    super::{
        FINISH, ReplyDelta, StreamParser,
        step::{DeltaBuffer, ThoughtSource},
    },
    TextFormat,
    answer_scanner::AnswerScanner,
    parser::split_call,
    section_parser::SectionParser,
};

/// The streaming parser of [`TextReact`](super::TextReact), for one reply. Text that is ambiguous
/// during the stream is emitted at the end of the reply.
pub(super) struct TextStreamParser {
    section_parser: SectionParser,
    deltas: DeltaBuffer,
    /// The length of the emitted part of the thought, in bytes. The next emitted text starts there.
    thought_len: usize,
    /// The length of the emitted part of the answer section, in bytes.
    answer_len: usize,
    answer_scanner: AnswerScanner,
    /// The text of a structured answer that was not emitted yet.
    output: String,
    /// The schema of the answer, or `None` if the answer is plain text.
    outputs: Option<Schema>,
}

impl TextStreamParser {
    pub(super) fn new(outputs: Option<&Schema>) -> Self {
        Self {
            section_parser: SectionParser::default(),
            deltas: DeltaBuffer::default(),
            thought_len: 0,
            answer_len: 0,
            answer_scanner: AnswerScanner::default(),
            output: String::new(),
            outputs: outputs.cloned(),
        }
    }

    fn emit_sections(&mut self) {
        let sections = self.section_parser.sections();
        let thought = take_new_text(&sections.thought, &mut self.thought_len);
        self.deltas.push_thought(ThoughtSource::Step, thought);
        if self.outputs.is_some() {
            if let [action] = sections.actions.as_slice()
                && is_finish(action)
            {
                self.output.push_str(take_new_text(&sections.arguments, &mut self.answer_len));
            }
            return;
        }
        match sections.actions.as_slice() {
            // The answer section may be a JSON object that contains the answer, or a code fence
            // around such an object. Its text is not streamed.
            [] if sections.answer.trim_start().starts_with(['{', '`']) => {}
            [] => self.deltas.push_answer(take_new_text(&sections.answer, &mut self.answer_len)),
            [action] if is_finish(action) => {
                self.deltas.push_answer(&self.answer_scanner.take_new_text(&sections.arguments));
            }
            _ => {}
        }
    }
}

impl StreamParser for TextStreamParser {
    fn push(&mut self, event: &ChatEvent) -> Vec<ReplyDelta> {
        match event {
            ChatEvent::TextDelta { text } => {
                self.section_parser.push(&self.deltas.split_thinking(text));
                self.emit_sections();
            }
            ChatEvent::ReasoningDelta { text } => self.deltas.push_thought(ThoughtSource::Reasoning, text),
            ChatEvent::Finished(response) => {
                self.section_parser.push(&self.deltas.finish_thinking());
                self.section_parser.finish();
                self.emit_sections();
                self.deltas.complete::<TextFormat>(response, self.outputs.as_ref());
            }
            _ => {}
        }
        let mut deltas = self.deltas.take();
        if !self.output.is_empty() {
            deltas.push(ReplyDelta::Output(std::mem::take(&mut self.output)));
        }
        deltas
    }
}

/// Trims `text`, and returns the part after the first `emitted` bytes. Adds the length of this part
/// to `emitted`.
fn take_new_text<'t>(text: &'t str, emitted: &mut usize) -> &'t str {
    let new = text.trim().get(*emitted..).unwrap_or_default();
    *emitted += new.len();
    new
}

fn is_finish(action: &str) -> bool {
    let (name, rest) = split_call(action);
    name.eq_ignore_ascii_case(FINISH) && rest.is_empty()
}

#[cfg(test)]
mod tests;
