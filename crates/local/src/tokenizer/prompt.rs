//! Encoding of a prompt that consists of markup and untrusted text.

use super::special_tokens::{TextPart, TokenSpellings};
use super::{Tokenizer, encode};

/// An encoder for a prompt of several parts.
///
/// Only markup can become special tokens. Adjacent text is tokenized as one text, whether it is
/// markup or untrusted, because a model is trained with the tokens of the whole text.
pub(crate) struct PromptEncoder<'a> {
    tokenizer: &'a Tokenizer,
    tokens: Vec<u32>,
    /// The text behind the last special token.
    text: String,
    /// `true` if the prompt continues a text, so nothing is inserted at its beginning.
    is_continued: bool,
}

impl<'a> PromptEncoder<'a> {
    /// Creates an encoder for a whole prompt.
    pub(crate) fn new(tokenizer: &'a Tokenizer) -> Self {
        Self { tokenizer, tokens: Vec::new(), text: String::new(), is_continued: false }
    }

    /// Creates an encoder for a text that continues a prompt.
    pub(super) fn continued(tokenizer: &'a Tokenizer) -> Self {
        Self { is_continued: true, ..Self::new(tokenizer) }
    }

    /// Appends `text`, which is markup of the chat template. Spellings of special tokens, such as
    /// `<|im_end|>`, become special tokens.
    pub(crate) fn push_markup(&mut self, text: &str) {
        self.push(text, &self.tokenizer.markup_tokens);
    }

    /// Appends `text`, which is untrusted and never becomes a special token.
    pub(crate) fn push_content(&mut self, text: &str) {
        self.push(text, &self.tokenizer.text_tokens);
    }

    fn push(&mut self, text: &str, spellings: &TokenSpellings) {
        for part in spellings.split(text) {
            match part {
                TextPart::Text(text) => self.text.push_str(text),
                TextPart::Token(token) => {
                    self.encode_text();
                    self.tokens.push(token);
                }
            }
        }
    }

    /// Source of the inserted space: llama.cpp, `src/llama-vocab.cpp`,
    /// `llama_vocab::impl::tokenize`, case `LLAMA_VOCAB_TYPE_SPM`.
    fn encode_text(&mut self) {
        if self.text.is_empty() {
            return;
        }
        let follows_special = match self.tokens.last() {
            Some(last) => self.tokenizer.is_special(*last),
            None => !self.is_continued,
        };
        if self.tokenizer.adds_space && follows_special {
            self.text.insert(0, ' ');
        }
        self.tokens.extend(encode(
            &self.tokenizer.text_tokenizer,
            &self.text,
            self.tokenizer.vocabulary.kind,
        ));
        self.text.clear();
    }

    /// Returns the tokens of the prompt. A whole prompt begins with the begin-of-sequence token if
    /// the file requires it. The token is not repeated if the chat template has written it.
    pub(crate) fn finish(mut self) -> Vec<u32> {
        self.encode_text();
        let begin = self.tokenizer.begin_token.filter(|_| !self.is_continued);
        if let Some(begin) = begin.filter(|begin| self.tokens.first() != Some(begin)) {
            self.tokens.insert(0, begin);
        }
        self.tokens
    }
}
