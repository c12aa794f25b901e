//! Scanner for the answer in incomplete arguments of `finish`.

use super::super::{json::StringScanner, step::ANSWER};

/// The start of arguments whose first key is the answer, without whitespace.
const PREFIX: &str = "{\"answer\":\"";

/// A scanner for an answer that is the first argument, in valid JSON. Other answers are emitted
/// when the reply is complete.
#[derive(Default)]
pub(super) struct AnswerScanner {
    /// Number of scanned bytes.
    scanned: usize,
    /// Number of matched bytes of [`PREFIX`].
    matched: usize,
    strings: StringScanner,
    is_escaped: bool,
    is_finished: bool,
}

impl AnswerScanner {
    /// Returns the new text of the answer. `arguments` is the whole text so far.
    pub(super) fn new_text(&mut self, arguments: &str) -> String {
        let new = arguments.get(self.scanned..).unwrap_or_default();
        self.scanned = arguments.len();
        new.chars().filter_map(|character| self.push(character)).collect()
    }

    fn push(&mut self, character: char) -> Option<char> {
        match PREFIX.get(self.matched..).and_then(|rest| rest.chars().next()) {
            _ if self.is_finished => return None,
            Some(expected) if expected == character => self.matched += 1,
            Some(_) => self.is_finished = !character.is_whitespace(),
            None => self.is_finished = self.ends_at(character),
        }
        let decoded = self.strings.push(character).filter(|_| !self.is_finished);
        decoded.filter(|(path, _)| matches!(path, [name] if name == ANSWER)).map(|(_, decoded)| decoded)
    }

    /// Returns `true` at the closing quote, and at an invalid escape, after which the text is
    /// uncertain.
    fn ends_at(&mut self, character: char) -> bool {
        if self.is_escaped {
            self.is_escaped = false;
            return !"\"\\/bfnrtu".contains(character);
        }
        self.is_escaped = character == '\\';
        character == '"'
    }
}
