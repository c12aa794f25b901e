//! String literals in JSON text that is incomplete or invalid.

#[cfg(test)]
mod tests;

use std::mem;

use crate::surrogates;

/// A state machine that detects the string literals in JSON text, one character at a time. A
/// [`StringDecoder`] decodes their content.
///
/// Objects and numbers are not parsed, so the text need not be valid JSON.
///
/// # Examples
///
/// ```
/// use haft_text::JsonStringTracker;
///
/// let mut strings = JsonStringTracker::default();
/// let is_inside: Vec<_> = r#"{"a\"b"}"#.chars().map(|written| strings.feed(written)).collect();
/// assert_eq!(is_inside, [false, true, true, true, true, true, true, false]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JsonStringTracker {
    quote: Option<char>,
    is_escaped: bool,
}

impl JsonStringTracker {
    /// Processes the next character. Returns `true` if the character belongs to a string literal,
    /// including its quotes.
    ///
    /// If no string is open, the character `"` opens a string.
    pub fn feed(&mut self, written: char) -> bool {
        self.feed_open_string(written) || {
            let is_quote = written == '"';
            if is_quote {
                self.open(written);
            }
            is_quote
        }
    }

    /// Processes the next character and returns `true` if a string is open. If no string is open,
    /// ignores the character and returns `false`. Unlike [`feed`](Self::feed), never opens a
    /// string.
    pub fn feed_open_string(&mut self, written: char) -> bool {
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

/// A state machine that decodes the content of a JSON string literal, one character at a time. The
/// input must not contain the quotes around the string. A [`JsonStringTracker`] detects them.
///
/// Escapes are decoded as in RFC 8259, section 7. Invalid escapes cause no error: an unknown letter
/// after a backslash stands for itself, and an invalid hex digit counts as 0. A high surrogate
/// without a low surrogate is dropped. A low surrogate without a high surrogate is replaced by
/// `U+FFFD`.
///
/// # Examples
///
/// ```
/// use haft_text::StringDecoder;
///
/// let mut decoder = StringDecoder::default();
/// let decoded: String = r"a\n\ud83c\udf0d".chars().filter_map(|written| decoder.feed(written)).collect();
/// assert_eq!(decoded, "a\n🌍");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StringDecoder {
    escape: Escape,
    /// An escaped high surrogate. An escaped low surrogate should follow.
    high: Option<u16>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Escape {
    #[default]
    None,
    /// A backslash was read.
    Begun,
    /// `\u` and a number of hex digits were read. `unit` is the value of these digits, and `digits`
    /// is their number.
    Unit { unit: u16, digits: u8 },
}

impl StringDecoder {
    /// Processes the next character of the string. Returns the decoded character, or `None` if an
    /// escape sequence is not complete yet.
    pub fn feed(&mut self, written: char) -> Option<char> {
        match (mem::take(&mut self.escape), written) {
            (Escape::None, '\\') => self.escape = Escape::Begun,
            (Escape::Begun, 'u') => self.escape = Escape::Unit { unit: 0, digits: 0 },
            (Escape::Unit { unit, digits }, digit) => {
                let unit = unit << 4 | hex_value(digit);
                if digits == 3 {
                    return self.push_unit(unit);
                }
                self.escape = Escape::Unit { unit, digits: digits + 1 };
            }
            (escape, written) => {
                self.high = None;
                return Some(if escape == Escape::Begun { short_escape(written) } else { written });
            }
        }
        None
    }

    /// Processes the UTF-16 code unit `unit` of a complete `\uXXXX` escape. Returns `None` for a
    /// high surrogate.
    fn push_unit(&mut self, unit: u16) -> Option<char> {
        let high = self.high.take();
        if surrogates::is_high(unit) {
            self.high = Some(unit);
            return None;
        }
        let pair = high.and_then(|high| surrogates::decode_pair(high, unit));
        Some(pair.or_else(|| char::from_u32(unit.into())).unwrap_or(char::REPLACEMENT_CHARACTER))
    }
}

fn short_escape(letter: char) -> char {
    match letter {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'b' => '\u{8}',
        'f' => '\u{c}',
        other => other,
    }
}

/// Returns the value of the hex digit `digit`, or 0 for any other character.
fn hex_value(digit: char) -> u16 {
    digit.to_digit(16).and_then(|digit| u16::try_from(digit).ok()).unwrap_or_default()
}
