//! The quotable text of a question.

use serde_json::json;
use unicode_segmentation::UnicodeSegmentation as _;

/// The maximum number of words, spaces and punctuation marks in a question that can be quoted. Longer
/// questions consist mostly of material, and their grammar would be large.
const MAX_QUOTABLE_CHUNKS: usize = 800;

/// The rule for a need in the model's own words. Without the excluded characters, the model writes
/// a call there, with invented arguments.
pub(super) const FREE_NEED_RULE: &str = r"NEED: /[^\n(){}_=]{1,80}/";

/// The part of a question for which no call has been made.
///
/// A small model that states a need in its own words invents needs and does not stop. A need is
/// therefore a quotation of consecutive words, and each quotation begins after the last one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OpenQuestion {
    text: String,
}

impl OpenQuestion {
    pub(super) fn new(text: &str) -> Self {
        // A need is a single line.
        Self { text: text.split_whitespace().collect::<Vec<_>>().join(" ") }
    }

    /// Returns `true` if more than one word is left.
    pub(super) fn is_open(&self) -> bool {
        self.text.unicode_words().nth(1).is_some()
    }

    /// Removes the text up to the end of `need`, a quotation.
    pub(super) fn advance_past(&mut self, need: &str) {
        if let Some((_, rest)) = self.text.split_once(need) {
            self.text = rest.to_owned();
        }
    }

    /// Returns the rules for the terminal `NEED`: a quotation of consecutive words. The words have
    /// the boundaries of Unicode Standard Annex 29, so a language without spaces can be quoted, too.
    /// Returns `None` if no words are left, or if the text is too long.
    pub(super) fn need_rules(&self) -> Option<String> {
        let chunks: Vec<_> = self.text.split_word_bounds().collect();
        if chunks.len() > MAX_QUOTABLE_CHUNKS || self.text.unicode_words().next().is_none() {
            return None;
        }
        let quotation = json!({"substring_chunks": chunks});
        Some(format!("NEED: WORDS & /\\S([^\\n]*\\S)?/\nWORDS: %regex {quotation}"))
    }
}

#[cfg(test)]
mod tests;
