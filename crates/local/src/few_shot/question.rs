//! Grammar rules for the need that the model states before a call: a quotation from the question,
//! or a text in the model's own words.

use serde_json::json;

/// The part of a question for which no call is planned yet.
///
/// A small model invents needs if it states them in its own words. Therefore it must quote
/// consecutive words of the question, and each quotation must follow the previous quotation. When
/// the end of the question is reached, no further call is planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OpenQuestion {
    text: String,
}

/// The maximum length of a question in bytes. A longer question usually contains pasted text, and
/// the grammar that permits only quotations from it would be too large.
const MAX_QUESTION_BYTES: usize = 2000;
/// Punctuation that may follow a word.
const PUNCTUATION: [char; 6] = [',', '.', ';', ':', '?', '!'];

impl OpenQuestion {
    pub(super) fn new(text: &str) -> Self {
        // A need is stated on a single line, with single spaces between words.
        Self { text: text.split_whitespace().collect::<Vec<_>>().join(" ") }
    }

    /// Returns `true` if at least two words of the question are left for further calls.
    pub(super) fn is_open(&self) -> bool {
        self.word_count() > 1
    }

    /// Removes the text up to the end of `part`, the need for a call that is now planned. Does
    /// nothing if the rest of the question does not contain `part`.
    pub(super) fn advance_past(&mut self, part: &str) {
        if let Some((_, behind)) = self.text.split_once(part) {
            self.text = behind.to_owned();
        }
    }

    /// Returns the grammar rules that define the terminal `NEED` as two or more consecutive words
    /// of the question. If only one word is left, `NEED` is this word.
    ///
    /// Returns `None` if no words are left, or if the question is too long.
    pub(super) fn need_rules(&self) -> Option<String> {
        match self.word_count() {
            0 => None,
            _ if self.text.len() > MAX_QUESTION_BYTES => None,
            1 => Some(self.quoting_rules(r"/\S+/")),
            _ => Some(self.quoting_rules(r"/\S+ [^\n]*\S/")),
        }
    }

    fn quoting_rules(&self, shape: &str) -> String {
        format!("NEED: WORDS & {shape}\nWORDS: %regex {}", json!({"substring_chunks": self.chunks()}))
    }

    fn word_count(&self) -> usize {
        self.text.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count()
    }

    /// Splits the question into words, punctuation and whitespace.
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

/// The grammar rule for a need of at most 80 characters in the model's own words. Parentheses,
/// braces, `_` and `=` are excluded, because the model would otherwise begin a call with invented
/// arguments.
pub(super) const FREE_NEED_RULE: &str = r"NEED: /[^\n(){}_=]{1,80}/";
