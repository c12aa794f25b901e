//! Where in its JSON a reply is.

/// A place between two bytes of JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    InString,
    InNumber,
    Between,
}

impl Place {
    /// The place behind the last byte. JSON is written on one line: what stands on earlier ones is prose.
    pub(super) fn behind(written: &[u8]) -> Self {
        let line = written.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
        let mut place = Self::Between;
        let mut escaped = false;
        for byte in line {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = place == Self::InString,
                b'"' if place == Self::InString => place = Self::Between,
                b'"' => place = Self::InString,
                b'-' | b'+' | b'.' | b'0'..=b'9' | b'e' | b'E' if place == Self::InNumber => {}
                b'-' | b'0'..=b'9' if place == Self::Between => place = Self::InNumber,
                _ if place == Self::InNumber => place = Self::Between,
                _ => {}
            }
        }
        place
    }
}
