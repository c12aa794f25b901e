use std::mem;

use haft_core::text::surrogates;

/// An incremental scanner for the string values of a JSON object.
///
/// The scanner returns each decoded character of a value, with the path of keys to the value. Text
/// before and after the first object is skipped. Invalid JSON causes no error, but the returned
/// characters may be wrong.
#[derive(Default)]
pub(in super::super::super) struct StringScanner {
    /// The keys on the path to the current value. An array element has an empty key.
    path: Vec<String>,
    /// The objects and arrays that are not closed yet, outermost first: `true` for an object,
    /// `false` for an array.
    containers: Vec<bool>,
    state: ScanState,
    escape: Escape,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum ScanState {
    /// The scanner has not read the `{` of the first object yet.
    #[default]
    Before,
    /// The scanner is inside the object, but outside a string. `expects_key` is set if the next
    /// string is a key.
    Between {
        expects_key: bool,
    },
    Key,
    Value,
    /// The scanner has read the `}` of the first object.
    After,
}

#[derive(Clone, Copy, Default)]
enum Escape {
    #[default]
    None,
    /// A backslash was read inside a string.
    Begun,
    /// `\u` and a number of hex digits were read. `unit` is the value of these digits, and `digits`
    /// is their number.
    Unit { unit: u16, digits: u8 },
    /// An escaped high surrogate was read. An escaped low surrogate should follow.
    High(u16),
    /// An escaped high surrogate and a backslash were read.
    HighBegun(u16),
    /// The escaped high surrogate `high`, `\u` and a number of hex digits were read. `unit` is the
    /// value of these digits, and `digits` is their number.
    Low { high: u16, unit: u16, digits: u8 },
}

impl StringScanner {
    /// Scans one character of the JSON text. If a decoded character of a string value is complete,
    /// returns the path to the value and the decoded character. Otherwise returns `None`.
    pub(in super::super::super) fn push(&mut self, character: char) -> Option<(&[String], char)> {
        match self.state {
            ScanState::Before if character == '{' => self.enter(true),
            ScanState::Between { expects_key } => self.scan_between(character, expects_key),
            ScanState::Key | ScanState::Value => return self.scan_string(character),
            ScanState::Before | ScanState::After => {}
        }
        None
    }

    fn scan_between(&mut self, character: char, expects_key: bool) {
        match character {
            '"' if expects_key => {
                if let Some(last) = self.path.last_mut() {
                    last.clear();
                }
                self.state = ScanState::Key;
            }
            '"' => self.state = ScanState::Value,
            '{' => self.enter(true),
            '[' => self.enter(false),
            '}' | ']' => self.leave(),
            ':' => self.state = ScanState::Between { expects_key: false },
            ',' => self.state = ScanState::Between { expects_key: self.containers.last() == Some(&true) },
            _ => {}
        }
    }

    fn enter(&mut self, is_object: bool) {
        self.containers.push(is_object);
        self.path.push(String::new());
        self.state = ScanState::Between { expects_key: is_object };
    }

    fn leave(&mut self) {
        self.containers.pop();
        self.path.pop();
        self.state = if self.containers.is_empty() {
            ScanState::After
        } else {
            ScanState::Between { expects_key: false }
        };
    }

    fn scan_string(&mut self, character: char) -> Option<(&[String], char)> {
        let decoded = match self.escape {
            Escape::None if character == '"' => {
                self.state = ScanState::Between { expects_key: false };
                return None;
            }
            _ => self.unescape(character)?,
        };
        if self.state == ScanState::Value {
            return Some((&self.path, decoded));
        }
        if let Some(key) = self.path.last_mut() {
            key.push(decoded);
        }
        None
    }

    /// Processes one raw character of a string. Returns the decoded character, or `None` if an
    /// escape sequence is not complete yet.
    fn unescape(&mut self, character: char) -> Option<char> {
        let (next, decoded) = match (mem::take(&mut self.escape), character) {
            (Escape::None, '\\') => (Escape::Begun, None),
            (Escape::None, decoded) => (Escape::None, Some(decoded)),
            (Escape::Begun, 'u') => (Escape::Unit { unit: 0, digits: 0 }, None),
            (Escape::Begun, letter) => (Escape::None, Some(short_escape(letter))),
            (Escape::Unit { unit, digits }, digit) => {
                let unit = unit << 4 | hex_value(digit);
                match digits {
                    3 if surrogates::is_high(unit) => (Escape::High(unit), None),
                    3 => (Escape::None, Some(or_replacement(char::from_u32(unit.into())))),
                    _ => (Escape::Unit { unit, digits: digits + 1 }, None),
                }
            }
            (Escape::High(high), '\\') => (Escape::HighBegun(high), None),
            (Escape::HighBegun(high), 'u') => (Escape::Low { high, unit: 0, digits: 0 }, None),
            // A high surrogate without a low surrogate is dropped.
            (Escape::High(_) | Escape::HighBegun(_), decoded) => (Escape::None, Some(decoded)),
            (Escape::Low { high, unit, digits }, digit) => {
                let unit = unit << 4 | hex_value(digit);
                if digits == 3 {
                    (Escape::None, Some(or_replacement(surrogates::join(high, unit))))
                } else {
                    (Escape::Low { high, unit, digits: digits + 1 }, None)
                }
            }
        };
        self.escape = next;
        decoded
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

fn or_replacement(character: Option<char>) -> char {
    character.unwrap_or(char::REPLACEMENT_CHARACTER)
}
