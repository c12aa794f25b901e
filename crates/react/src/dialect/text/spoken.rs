//! Hears the answer in the arguments of `finish` that are still being written.

use super::super::{json::Strings, step::ANSWER};

/// How arguments begin in which the answer stands first, without space.
const OPENING: &str = "{\"answer\":\"";

/// The answer, where it stands first and as JSON is written. Any other is told when it can be read as a whole.
#[derive(Default)]
pub(super) struct Spoken {
    /// How much of the arguments was read, in bytes.
    read: usize,
    /// How much of the opening was read.
    opened: usize,
    strings: Strings,
    is_escaped: bool,
    is_over: bool,
}

impl Spoken {
    /// What is new of the answer in all that there is of the arguments.
    pub(super) fn more(&mut self, arguments: &str) -> String {
        let more = arguments.get(self.read..).unwrap_or_default();
        self.read = arguments.len();
        more.chars().filter_map(|written| self.take(written)).collect()
    }

    fn take(&mut self, written: char) -> Option<char> {
        match OPENING.get(self.opened..).and_then(|rest| rest.chars().next()) {
            _ if self.is_over => return None,
            Some(expected) if expected == written => self.opened += 1,
            Some(_) => self.is_over = !written.is_whitespace(),
            None => self.is_over = self.ends_with(written),
        }
        let said = self.strings.take(written).filter(|_| !self.is_over);
        said.filter(|(path, _)| matches!(path, [name] if name == ANSWER)).map(|(_, said)| said)
    }

    /// Whether the answer ends here, or what it says is not sure from here on.
    fn ends_with(&mut self, written: char) -> bool {
        if self.is_escaped {
            self.is_escaped = false;
            return !"\"\\/bfnrtu".contains(written);
        }
        self.is_escaped = written == '\\';
        written == '"'
    }
}
