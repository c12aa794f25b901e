//! The position of a reply in its JSON.

use haft_core::text::StringTracker;

/// A position between two bytes of JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    InString,
    InNumber,
    Between,
}

impl Place {
    /// The position behind the last byte. JSON is written on one line; earlier lines are prose.
    pub(super) fn behind(written: &[u8]) -> Self {
        let line = written.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
        let (mut strings, mut is_number) = (StringTracker::default(), false);
        for byte in line {
            let is_string = strings.push(char::from(*byte));
            is_number = !is_string
                && match byte {
                    b'-' | b'0'..=b'9' => true,
                    b'+' | b'.' | b'e' | b'E' => is_number,
                    _ => false,
                };
        }
        match (strings.is_inside(), is_number) {
            (true, _) => Self::InString,
            (false, true) => Self::InNumber,
            (false, false) => Self::Between,
        }
    }
}
