//! An incremental scanner for the string values of a JSON object.

use haft_core::text::{JsonStringTracker, StringDecoder};

/// An incremental scanner for the string values of a JSON object.
///
/// The scanner follows objects, arrays and keys. A [`JsonStringTracker`] finds the end of each
/// string, and a [`StringDecoder`] decodes its content.
///
/// The scanner returns each decoded character of a string value, with the keys on the path to this
/// value. Text before and after the first object is skipped. Invalid JSON causes no error, but the
/// returned characters may be wrong.
#[derive(Default)]
pub(crate) struct StringScanner {
    /// The keys on the path to the current value. An array element has an empty key.
    path: Vec<String>,
    /// The objects and arrays that are not closed yet, outermost first: `true` for an object,
    /// `false` for an array.
    open_containers: Vec<bool>,
    state: ScanState,
    tracker: JsonStringTracker,
    decoder: StringDecoder,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum ScanState {
    /// The scanner has not read the `{` of the first object yet.
    #[default]
    Before,
    /// The scanner is inside the object, but outside a string. `expects_key` is `true` if the next
    /// string is a key.
    Between {
        expects_key: bool,
    },
    Key,
    Value,
    /// The scanner has read the `}` of the first object.
    After,
}

impl StringScanner {
    /// Scans one character of the JSON text. If a decoded character of a string value is complete,
    /// returns the path to the value and the decoded character. Otherwise returns `None`.
    pub(crate) fn push(&mut self, character: char) -> Option<(&[String], char)> {
        match self.state {
            ScanState::Before if character == '{' => self.enter(true),
            ScanState::Between { expects_key } => self.scan_between(character, expects_key),
            ScanState::Key | ScanState::Value => return self.scan_string(character),
            ScanState::Before | ScanState::After => {}
        }
        None
    }

    /// Returns the keys on the path to the current value. An array element has an empty key. The
    /// path is empty outside the object.
    pub(crate) fn path(&self) -> &[String] {
        &self.path
    }

    fn scan_between(&mut self, character: char, expects_key: bool) {
        match character {
            '"' if expects_key => {
                if let Some(last) = self.path.last_mut() {
                    last.clear();
                }
                self.open_string(ScanState::Key);
            }
            '"' => self.open_string(ScanState::Value),
            '{' => self.enter(true),
            '[' => self.enter(false),
            '}' | ']' => self.leave(),
            ':' => self.state = ScanState::Between { expects_key: false },
            ',' => {
                self.state = ScanState::Between { expects_key: self.open_containers.last() == Some(&true) }
            }
            _ => {}
        }
    }

    fn enter(&mut self, is_object: bool) {
        self.open_containers.push(is_object);
        self.path.push(String::new());
        self.state = ScanState::Between { expects_key: is_object };
    }

    fn leave(&mut self) {
        self.open_containers.pop();
        self.path.pop();
        self.state = if self.open_containers.is_empty() {
            ScanState::After
        } else {
            ScanState::Between { expects_key: false }
        };
    }

    fn scan_string(&mut self, character: char) -> Option<(&[String], char)> {
        self.tracker.feed_open_string(character);
        if !self.tracker.is_inside() {
            self.state = ScanState::Between { expects_key: false };
            return None;
        }
        let decoded = self.decoder.feed(character)?;
        if self.state == ScanState::Value {
            return Some((&self.path, decoded));
        }
        if let Some(key) = self.path.last_mut() {
            key.push(decoded);
        }
        None
    }

    fn open_string(&mut self, state: ScanState) {
        self.tracker.open('"');
        self.decoder = StringDecoder::default();
        self.state = state;
    }
}

#[cfg(test)]
mod tests;
