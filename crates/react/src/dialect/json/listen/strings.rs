use std::mem;

use haft_core::text::surrogates;

/// Reads JSON one character at a time and emits the characters of string values with the keys that lead to them.
///
/// Text before and behind the first object is skipped. Invalid JSON results in odd text, not in an error.
#[derive(Default)]
pub(in super::super::super) struct Strings {
    /// The keys that lead to the current value; an array has an empty one.
    path: Vec<String>,
    /// For each container around the current place, whether it is an object.
    containers: Vec<bool>,
    place: Place,
    escape: Escape,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum Place {
    /// Before the object.
    #[default]
    Before,
    /// Inside it, outside a string; the next string is a key or it is not.
    Between {
        key: bool,
    },
    Key,
    Value,
    /// Behind the object.
    Behind,
}

#[derive(Clone, Copy, Default)]
enum Escape {
    #[default]
    None,
    /// After a backslash.
    Begun,
    /// In `\uXXXX`: what is read of it, and how many digits.
    Unit { unit: u16, digits: u8 },
    /// After the first half of a character outside the basic plane.
    High(u16),
    /// After the first half and the backslash of the second.
    HighBegun(u16),
    /// In the second half.
    Low { high: u16, unit: u16, digits: u8 },
}

impl Strings {
    /// Takes one character of the text. Gives a character of a string value, where this completes one.
    pub(in super::super::super) fn take(&mut self, written: char) -> Option<(&[String], char)> {
        match self.place {
            Place::Before if written == '{' => self.enter(true),
            Place::Between { key } => self.between(written, key),
            Place::Key | Place::Value => return self.within(written),
            Place::Before | Place::Behind => {}
        }
        None
    }

    fn between(&mut self, written: char, key: bool) {
        match written {
            '"' if key => {
                if let Some(last) = self.path.last_mut() {
                    last.clear();
                }
                self.place = Place::Key;
            }
            '"' => self.place = Place::Value,
            '{' => self.enter(true),
            '[' => self.enter(false),
            '}' | ']' => self.leave(),
            ':' => self.place = Place::Between { key: false },
            ',' => self.place = Place::Between { key: self.containers.last() == Some(&true) },
            _ => {}
        }
    }

    fn enter(&mut self, object: bool) {
        self.containers.push(object);
        self.path.push(String::new());
        self.place = Place::Between { key: object };
    }

    fn leave(&mut self) {
        self.containers.pop();
        self.path.pop();
        self.place = if self.containers.is_empty() { Place::Behind } else { Place::Between { key: false } };
    }

    fn within(&mut self, written: char) -> Option<(&[String], char)> {
        let said = match self.escape {
            Escape::None if written == '"' => {
                self.place = Place::Between { key: false };
                return None;
            }
            _ => self.unescape(written)?,
        };
        if self.place == Place::Value {
            return Some((&self.path, said));
        }
        if let Some(key) = self.path.last_mut() {
            key.push(said);
        }
        None
    }

    /// The character that is complete with this one.
    fn unescape(&mut self, written: char) -> Option<char> {
        let (next, said) = match (mem::take(&mut self.escape), written) {
            (Escape::None, '\\') => (Escape::Begun, None),
            (Escape::None, said) => (Escape::None, Some(said)),
            (Escape::Begun, 'u') => (Escape::Unit { unit: 0, digits: 0 }, None),
            (Escape::Begun, letter) => (Escape::None, Some(short_escape(letter))),
            (Escape::Unit { unit, digits }, digit) => {
                let unit = unit << 4 | hex(digit);
                match digits {
                    3 if surrogates::is_high(unit) => (Escape::High(unit), None),
                    3 => (Escape::None, Some(known(char::from_u32(unit.into())))),
                    _ => (Escape::Unit { unit, digits: digits + 1 }, None),
                }
            }
            (Escape::High(high), '\\') => (Escape::HighBegun(high), None),
            (Escape::HighBegun(high), 'u') => (Escape::Low { high, unit: 0, digits: 0 }, None),
            // Half a character: the rest is read as it stands.
            (Escape::High(_) | Escape::HighBegun(_), said) => (Escape::None, Some(said)),
            (Escape::Low { high, unit, digits }, digit) => {
                let unit = unit << 4 | hex(digit);
                if digits == 3 {
                    (Escape::None, Some(known(surrogates::join(high, unit))))
                } else {
                    (Escape::Low { high, unit, digits: digits + 1 }, None)
                }
            }
        };
        self.escape = next;
        said
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

/// The value of a hex digit, 0 for any other character.
fn hex(digit: char) -> u16 {
    digit.to_digit(16).and_then(|digit| u16::try_from(digit).ok()).unwrap_or_default()
}

fn known(character: Option<char>) -> char {
    character.unwrap_or(char::REPLACEMENT_CHARACTER)
}
