//! Reasoning of a model before its reply, such as `<think>…</think>`.
//!
//! The chat template opens the reasoning block, or the model does. The block is generated without a
//! constraint, and it ends before any constraint begins, so calls and JSON after it are valid.

use haft_core::model::ModelError;

use super::prose::{ProseDecoder, ProseEnd};
use super::{DEFAULT_MAX_TOKENS, ReplyWriter};
use crate::engine::{GeneratedTokens, GenerationJob};
use crate::template::ThinkBlock;

/// The maximum number of reasoning tokens if the request does not set `max_tokens`.
const MAX_REASONING_TOKENS: usize = 2048;

/// The options of [`ReplyWriter::generate_prose`].
pub(super) struct ProseOptions {
    /// See [`GenerationJob::stop_tokens`].
    pub(super) stop_tokens: Vec<u32>,
    /// See [`GenerationJob::banned_tokens`].
    pub(super) banned_tokens: Vec<u32>,
    /// The maximum number of tokens of the text, if fewer than the reply may have.
    pub(super) max_tokens: usize,
}

impl Default for ProseOptions {
    fn default() -> Self {
        Self { stop_tokens: Vec::new(), banned_tokens: Vec::new(), max_tokens: usize::MAX }
    }
}

impl ReplyWriter<'_> {
    /// Generates the reasoning if the prompt ends with its opening tag. Returns `false` if the
    /// token limit was reached.
    pub(super) fn write_open_reasoning(&mut self) -> Result<bool, ModelError> {
        match self.think_block {
            ThinkBlock::Open => self.write_reasoning(),
            ThinkBlock::Absent | ThinkBlock::Closed => Ok(true),
        }
    }

    /// Generates text that `prose` decodes. Reasoning at the beginning is not part of the text.
    ///
    /// If the reasoning reaches the token limit, the text is incomplete.
    pub(super) fn generate_prose(
        &mut self,
        prose: &mut ProseDecoder<'_>,
        options: &ProseOptions,
    ) -> Result<GeneratedTokens, ModelError> {
        let tags = self.engine.think_tags();
        let open = self.engine.tokenizer().special_token(tags.open);
        loop {
            let may_think = self.think_block != ThinkBlock::Open;
            prose.set_think_tag(may_think.then_some(tags.open));
            let mut job = self.unconstrained_job(0.0);
            job.max_tokens = job.max_tokens.min(options.max_tokens);
            job.stop_tokens.extend(options.stop_tokens.iter().chain(&open));
            job.banned_tokens.extend(&options.banned_tokens);
            let written = self.generate_with(job, &mut |bytes| prose.push(bytes))?;
            let is_open_token = written.stopped_at.is_some() && written.stopped_at == open;
            if !is_open_token && prose.end() != Some(ProseEnd::ThinkTag) {
                return Ok(written);
            }
            if is_open_token {
                self.count_output(1);
                self.prompt.extend(open);
                if !may_think || !prose.text().trim().is_empty() {
                    // Only a tag at the beginning opens reasoning.
                    continue;
                }
            } else if !written.bytes.ends_with(tags.open.as_bytes()) {
                // The last token contains text behind the tag.
                self.prompt.truncate(self.reply_start);
                self.prefill_markup(tags.open);
            }
            prose.clear();
            if !self.write_reasoning()? {
                return Ok(GeneratedTokens::default());
            }
        }
    }

    /// Appends the line break between the reasoning and a constrained reply to the prompt.
    pub(super) fn separate_from_reasoning(&mut self) {
        if self.think_block == ThinkBlock::Open {
            self.prefill("\n\n");
        }
    }

    /// Generates reasoning and its closing tag. Returns `false` if the token limit was reached.
    ///
    /// The closing tag is appended if the model ends its reply within the reasoning, or if the
    /// reasoning repeats itself. It is also appended after [`MAX_REASONING_TOKENS`] if the request
    /// has no limit.
    fn write_reasoning(&mut self) -> Result<bool, ModelError> {
        self.think_block = ThinkBlock::Open;
        let tags = self.engine.think_tags();
        let close = self.engine.tokenizer().special_token(tags.close);
        let has_limit = self.request.settings.max_tokens.is_some();
        let start = self.prompt.len();
        let mut text = ProseDecoder::new(self.event_sender, Vec::new(), vec![tags.close]).into_reasoning();
        let job = self.unconstrained_job(0.0);
        let max_tokens = if has_limit { job.max_tokens } else { MAX_REASONING_TOKENS };
        let job = GenerationJob { max_tokens, stop_tokens: close.into_iter().collect(), ..job };
        let written = self.generate_with(job, &mut |bytes| text.push(bytes))?;
        self.usage.reasoning_tokens += written.tokens.len() as u64;
        let is_exact = text.end().is_some() && written.bytes.ends_with(tags.close.as_bytes());
        if text.end().is_some() && !is_exact {
            // The last token contains text behind the tag.
            self.prompt.truncate(start);
            self.prefill(text.text());
        }
        self.reasoning.push_str(&text.finish());
        if !has_limit {
            self.tokens_left = DEFAULT_MAX_TOKENS;
        }
        let is_context_full = written.tokens.len() < max_tokens;
        if !written.is_complete && !written.is_loop && (has_limit || is_context_full) {
            return Ok(false);
        }
        if written.stopped_at.is_some() {
            self.count_output(1);
            self.usage.reasoning_tokens += 1;
        }
        if !is_exact {
            self.prefill_markup(tags.close);
        }
        self.reply_start = self.prompt.len();
        Ok(true)
    }

    /// Counts `tokens` of the output that [`GeneratedTokens`] does not contain.
    fn count_output(&mut self, tokens: usize) {
        self.usage.output_tokens += tokens as u64;
        self.tokens_left = self.tokens_left.saturating_sub(tokens);
    }
}
