//! Generation of the answer.

use haft_core::model::{ChatResponse, ModelError};

use super::ExampleReply;
use super::dialogue::{ANSWER, LINE_STARTS, readable};
use super::mention::mentions_all;
use crate::engine::{GenerationJob, NextAction};
use crate::respond::ProseDecoder;

/// A bias larger than any logit. Subtracting it from the logits of the end-of-sequence tokens keeps
/// the model from ending the reply with the next token.
const PREVENT_END_BIAS: f32 = 1e6;

impl ExampleReply<'_> {
    /// Generates the answer after the literal text `lead`. `beginning` is the beginning of an
    /// answer that is text.
    pub(super) fn write_answer(&mut self, lead: &str, beginning: &str) -> Result<ChatResponse, ModelError> {
        // The space after `Answer:` is not prefilled, because it is part of the first word's token.
        self.writer.prefill(&format!("{lead}{}", ANSWER.trim_end()));
        match self.writer.write_structured(" ")? {
            Some(reply) => Ok(reply),
            None => self.write_prose(beginning),
        }
    }

    /// Returns the tokens that begin a tool result in JSON. An answer must not begin with them: a
    /// small model repeats the data instead of a sentence about it.
    fn beginnings_of_data(&self) -> Vec<u32> {
        let is_data = |text: &&String| text.trim_start().starts_with(['{', '[']);
        let data = self.results.iter().filter(is_data);
        let texts = data.flat_map(|text| [Some(text.trim_start().to_owned()), readable(text)]);
        texts.flatten().flat_map(|text| self.writer.engine.tokenizer().beginnings_of(&text)).collect()
    }

    /// Generates the answer as text, which begins with `beginning`. If the answer does not mention
    /// all tool results, the model may have to continue it; see
    /// [`ExampleProfile::continues_answers`].
    fn write_prose(&mut self, beginning: &str) -> Result<ChatResponse, ModelError> {
        let mut prose =
            ProseDecoder::new(self.writer.event_sender, self.writer.stop_sequences(), LINE_STARTS.to_vec());
        let start = self.writer.prompt.len();
        self.writer.prefill(beginning);
        if prose.push(beginning.as_bytes()) == NextAction::Stop {
            return self.writer.finish_text(prose.finish(), true);
        }
        let mut eos_bias = 0.0;
        // Tool results usually belong to different parts of the question. A short answer may omit
        // some of them.
        let mut continuations = match self.profile.continues_answers {
            true => self.results.len().saturating_sub(1),
            false => 0,
        };
        let mut banned_first_tokens = self.beginnings_of_data();
        let question = self.corrector.question().to_owned();
        let written = loop {
            let job = GenerationJob {
                banned_first_tokens: std::mem::take(&mut banned_first_tokens),
                ..self.writer.unconstrained_job(eos_bias)
            };
            let written = self.writer.generate_with(job, &mut |bytes| prose.push(bytes))?;
            let is_finished =
                prose.hit_stop_sequence() || mentions_all(prose.text(), &self.results, &question);
            if !written.is_complete || is_finished || continuations == 0 || self.writer.tokens_left == 0 {
                break written;
            }
            continuations -= 1;
            eos_bias = -PREVENT_END_BIAS;
            self.writer.prompt.truncate(start);
            let text = prose.resume().to_owned();
            self.writer.prefill(&text);
        };
        self.writer.finish_text(prose.finish(), written.is_complete)
    }
}
