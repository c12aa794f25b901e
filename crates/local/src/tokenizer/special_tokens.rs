//! Recognition of the spellings of special tokens in a text.

use aho_corasick::{AhoCorasick, MatchKind};

use crate::LoadError;

/// The spellings of some tokens. At each place in a text, the longest spelling is found.
pub(super) struct TokenSpellings {
    automaton: AhoCorasick,
    tokens: Vec<u32>,
}

/// A part of a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TextPart<'a> {
    Text(&'a str),
    Token(u32),
}

impl TokenSpellings {
    pub(super) fn new<'a>(tokens: impl Iterator<Item = (u32, &'a str)>) -> Result<Self, LoadError> {
        let (tokens, spellings): (Vec<_>, Vec<_>) = tokens.filter(|(_, text)| !text.is_empty()).unzip();
        let automaton = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(spellings);
        let automaton =
            automaton.map_err(|error| LoadError::InvalidTokenizer { reason: error.to_string() })?;
        Ok(Self { automaton, tokens })
    }

    /// Splits `text` at the spellings. The texts between them may be empty.
    pub(super) fn split<'a>(&self, text: &'a str) -> Vec<TextPart<'a>> {
        let mut parts = Vec::new();
        let mut start = 0;
        for found in self.automaton.find_iter(text) {
            parts.push(TextPart::Text(text.get(start..found.start()).unwrap_or_default()));
            parts.extend(self.tokens.get(found.pattern().as_usize()).map(|token| TextPart::Token(*token)));
            start = found.end();
        }
        parts.push(TextPart::Text(text.get(start..).unwrap_or_default()));
        parts
    }
}
