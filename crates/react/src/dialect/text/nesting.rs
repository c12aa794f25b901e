//! Follows the braces and strings of arguments, while they come.

/// How deep a place is in objects, and in which string.
#[derive(Default)]
pub(super) struct Nesting {
    depth: usize,
    quote: Option<char>,
    is_escaped: bool,
}

impl Nesting {
    pub(super) fn take(&mut self, written: char) {
        if let Some(quote) = self.quote {
            let is_end = written == quote && !self.is_escaped;
            self.is_escaped = written == '\\' && !self.is_escaped;
            self.quote = self.quote.filter(|_| !is_end);
            return;
        }
        match written {
            '{' => self.depth += 1,
            '[' if self.is_open() => self.depth += 1,
            '}' | ']' => self.depth = self.depth.saturating_sub(1),
            // Outside of an object it may be an apostrophe.
            '"' | '\'' if self.is_open() => self.quote = Some(written),
            _ => {}
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.depth > 0
    }

    pub(super) fn is_string(&self) -> bool {
        self.quote.is_some()
    }
}
