//! Tracks the nesting of brackets and strings in streamed arguments.

use haft_core::text::JsonStringTracker;

/// A tracker of the nesting depth and of open strings in an incomplete JSON text.
#[derive(Default)]
pub(super) struct Nesting {
    depth: usize,
    strings: JsonStringTracker,
}

impl Nesting {
    pub(super) fn push_char(&mut self, character: char) {
        if self.strings.feed_open_string(character) {
            return;
        }
        match character {
            '{' => self.depth += 1,
            '[' if self.is_open() => self.depth += 1,
            '}' | ']' => self.depth = self.depth.saturating_sub(1),
            // An apostrophe outside an object does not start a string.
            '"' | '\'' if self.is_open() => self.strings.open(character),
            _ => {}
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.depth > 0
    }

    pub(super) fn is_in_string(&self) -> bool {
        self.strings.is_inside()
    }
}
