//! Streams the answer from the incomplete arguments of a `finish` call.

use crate::{json::StringScanner, step::ANSWER_KEY};

/// The prefix of arguments whose answer can be streamed. The comparison with this prefix ignores
/// whitespace in the arguments.
const ANSWER_PREFIX: &str = "{\"answer\":\"";

/// A scanner for the arguments of a `finish` call. The scanner streams the answer if the arguments
/// are valid JSON with `answer` as their first key. Other answers are emitted at the end of the
/// reply.
#[derive(Default)]
pub(super) struct AnswerScanner {
    /// The length of the arguments that were already scanned, in bytes. The next scan starts there.
    scanned: usize,
    /// The number of bytes of [`ANSWER_PREFIX`] that the arguments have matched so far.
    matched: usize,
    strings: StringScanner,
    is_escaped: bool,
    is_finished: bool,
}

impl AnswerScanner {
    /// Returns the answer text that was added to `arguments` since the previous call to this
    /// method. `arguments` contains everything received so far.
    pub(super) fn take_new_text(&mut self, arguments: &str) -> String {
        let new = arguments.get(self.scanned..).unwrap_or_default();
        self.scanned = arguments.len();
        new.chars().filter_map(|character| self.scan_char(character)).collect()
    }

    fn scan_char(&mut self, character: char) -> Option<char> {
        match ANSWER_PREFIX.get(self.matched..).and_then(|rest| rest.chars().next()) {
            _ if self.is_finished => return None,
            Some(expected) if expected == character => self.matched += 1,
            Some(_) => self.is_finished = !character.is_whitespace(),
            None => self.is_finished = self.ends_at(character),
        }
        let decoded = self.strings.push(character).filter(|_| !self.is_finished);
        decoded.filter(|(path, _)| matches!(path, [name] if name == ANSWER_KEY)).map(|(_, decoded)| decoded)
    }

    /// Returns `true` if the streamed text ends at `character`. This is the case at the closing
    /// quote and at an invalid escape, because the meaning of the text after such an escape is
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
