//! Nesting of the braces and strings in arguments that arrive in pieces.

use haft_core::text::StringTracker;

/// Depth in objects and lists, and whether a string is open.
#[derive(Default)]
pub(super) struct Nesting {
    depth: usize,
    strings: StringTracker,
}

impl Nesting {
    pub(super) fn take(&mut self, written: char) {
        if self.strings.push_inside(written) {
            return;
        }
        match written {
            '{' => self.depth += 1,
            '[' if self.is_open() => self.depth += 1,
            '}' | ']' => self.depth = self.depth.saturating_sub(1),
            // Outside of an object it may be an apostrophe.
            '"' | '\'' if self.is_open() => self.strings.open(written),
            _ => {}
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.depth > 0
    }

    pub(super) fn is_string(&self) -> bool {
        self.strings.is_inside()
    }
}
