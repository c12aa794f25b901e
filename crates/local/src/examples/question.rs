//! Restriction of needs to quotations of the question.

use serde_json::json;

/// The part of a question without a planned call.
///
/// In its own words, a small model invents needs. It may therefore only quote consecutive words of
/// the question, in order. The planning ends at the end of the question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OpenQuestion {
    text: String,
}

/// Longer questions are mostly material, and make the grammar too large.
const MAX_LENGTH: usize = 2000;
/// Punctuation after a word.
const PUNCTUATION: [char; 6] = [',', '.', ';', ':', '?', '!'];

impl OpenQuestion {
    pub(super) fn new(text: &str) -> Self {
        // A need is one line, with single spaces.
        Self { text: text.split_whitespace().collect::<Vec<_>>().join(" ") }
    }

    /// Returns `true` if the rest can be quoted.
    pub(super) fn is_open(&self) -> bool {
        self.words() > 1
    }

    /// Drops everything up to the end of a planned part.
    pub(super) fn advance_past(&mut self, part: &str) {
        if let Some((_, behind)) = self.text.split_once(part) {
            self.text = behind.to_owned();
        }
    }

    /// The terminals of `NEED`: consecutive words of the question, at least two if there are two.
    /// `None` if there is nothing to quote, or too much.
    pub(super) fn terminals(&self) -> Option<String> {
        match self.words() {
            0 => None,
            _ if self.text.len() > MAX_LENGTH => None,
            1 => Some(self.quoting(r"/\S+/")),
            _ => Some(self.quoting(r"/\S+ [^\n]*\S/")),
        }
    }

    fn quoting(&self, shape: &str) -> String {
        format!("NEED: WORDS & {shape}\nWORDS: %regex {}", json!({"substring_chunks": self.chunks()}))
    }

    fn words(&self) -> usize {
        self.text.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count()
    }

    /// Words, punctuation and white space, each as a chunk.
    fn chunks(&self) -> Vec<&str> {
        let mut chunks = Vec::new();
        for piece in self.text.split_inclusive(char::is_whitespace) {
            let word = piece.trim_end().trim_end_matches(PUNCTUATION);
            let (word, behind) = piece.split_at(word.len());
            let (punctuation, space) = behind.split_at(behind.trim_end().len());
            chunks.extend([word, punctuation, space].into_iter().filter(|chunk| !chunk.is_empty()));
        }
        chunks
    }
}

/// The terminal of a need in the model's own words. Brackets are excluded, because the model would
/// begin a call with invented arguments.
pub(super) const FREE: &str = r"NEED: /[^\n(){}_=]{1,80}/";
