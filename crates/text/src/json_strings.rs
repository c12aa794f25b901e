/// A state machine that detects the string literals in JSON text, one character at a time.
///
/// Objects and numbers are not parsed, so the text need not be valid JSON.
///
/// # Examples
///
/// ```
/// use haft_text::StringTracker;
///
/// let mut strings = StringTracker::default();
/// let is_inside: Vec<_> = r#"{"a\"b"}"#.chars().map(|written| strings.push(written)).collect();
/// assert_eq!(is_inside, [false, true, true, true, true, true, true, false]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StringTracker {
    quote: Option<char>,
    is_escaped: bool,
}

impl StringTracker {
    /// Processes the next character. Returns `true` if the character belongs to a string literal,
    /// including its quotes.
    ///
    /// If no string is open, the character `"` opens a string.
    pub fn push(&mut self, written: char) -> bool {
        self.push_inside(written) || {
            let is_quote = written == '"';
            if is_quote {
                self.open(written);
            }
            is_quote
        }
    }

    /// Processes the next character if a string is open, and returns `true`. Otherwise ignores the
    /// character and returns `false`. Unlike [`push`](Self::push), never opens a string.
    pub fn push_inside(&mut self, written: char) -> bool {
        let Some(quote) = self.quote else { return false };
        let is_end = written == quote && !self.is_escaped;
        self.is_escaped = written == '\\' && !self.is_escaped;
        self.quote = Some(quote).filter(|_| !is_end);
        true
    }

    /// Opens a string that ends at the next unescaped `quote`, for example at `'` in text that is
    /// almost JSON.
    pub fn open(&mut self, quote: char) {
        (self.quote, self.is_escaped) = (Some(quote), false);
    }

    /// Returns `true` while a string is open.
    pub fn is_inside(&self) -> bool {
        self.quote.is_some()
    }
}
