//! Streams the thought and the answer of a plain text step before the step is complete.

use haft_core::Schema;

use super::{answer_scanner::AnswerScanner, parser::split_call, section_parser::SectionParser};
use crate::{
    FINISH, ReplyDelta,
    step::{DeltaBuffer, StepScanner, ThoughtSource},
};

/// The scanner of a streamed [`TextReact`](super::TextReact) step.
#[derive(Default)]
pub(crate) struct TextScanner {
    section_parser: SectionParser,
    /// The length of the emitted part of the thought, in bytes. The next emitted text starts there.
    thought_len: usize,
    /// The length of the emitted part of the answer section, in bytes.
    answer_len: usize,
    answer_scanner: AnswerScanner,
}

impl StepScanner for TextScanner {
    fn push(&mut self, text: &str, is_end: bool, outputs: Option<&Schema>, deltas: &mut DeltaBuffer) {
        self.section_parser.push(text);
        if is_end {
            self.section_parser.finish();
        }
        let sections = self.section_parser.sections();
        deltas.push_thought(ThoughtSource::Step, take_new_text(&sections.thought, &mut self.thought_len));
        match (sections.actions.as_slice(), outputs) {
            ([action], Some(_)) if is_finish(action) => {
                let output = take_new_text(&sections.arguments, &mut self.answer_len);
                deltas.push_delta(ReplyDelta::Output(output.to_owned()));
            }
            (_, Some(_)) => {}
            // The answer section may be a JSON object that contains the answer, or a code fence
            // around such an object. Its text is not streamed.
            ([], None) if sections.answer.trim_start().starts_with(['{', '`']) => {}
            ([], None) => deltas.push_answer(take_new_text(&sections.answer, &mut self.answer_len)),
            ([action], None) if is_finish(action) => {
                deltas.push_answer(&self.answer_scanner.take_new_text(&sections.arguments));
            }
            _ => {}
        }
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
