//! The lexical state of a generated JSON text.

/// The lexical state of a JSON text after one of its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JsonState {
    /// Directly after the opening quotation mark of a string.
    StringStart,
    InString,
    /// Directly after a backslash in a string.
    InEscape,
    InNumber,
    Outside,
}

impl JsonState {
    /// Returns the state after the last byte of `written`. Only the last line is parsed: generated
    /// JSON has no line breaks, so earlier lines are prose.
    pub(super) fn at_end_of(written: &[u8]) -> Self {
        let line = written.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
        line.iter().fold(Self::Outside, |state, byte| state.after_byte(*byte))
    }

    /// Returns `true` if the state is [`Outside`](Self::Outside) after one of the last `tail` bytes
    /// of `written`.
    pub(super) fn was_outside(written: &[u8], tail: usize) -> bool {
        let (before, tail) = written.split_at(written.len().saturating_sub(tail));
        let mut state = Self::at_end_of(before);
        tail.iter().any(|byte| {
            state = if *byte == b'\n' { Self::Outside } else { state.after_byte(*byte) };
            state == Self::Outside
        })
    }

    /// Returns the state that results from appending `byte` to the text.
    pub(super) fn after_byte(self, byte: u8) -> Self {
        match (self, byte) {
            (Self::InEscape, _) => Self::InString,
            (Self::StringStart | Self::InString, b'"') => Self::Outside,
            (Self::StringStart | Self::InString, b'\\') => Self::InEscape,
            (Self::StringStart | Self::InString, _) => Self::InString,
            (_, b'"') => Self::StringStart,
            (Self::InNumber, b'-' | b'+' | b'.' | b'0'..=b'9' | b'e' | b'E') => Self::InNumber,
            (Self::Outside, b'-' | b'0'..=b'9') => Self::InNumber,
            (Self::InNumber | Self::Outside, _) => Self::Outside,
        }
    }

    /// Returns the offset of the first comma in `bytes` outside of strings.
    pub(super) fn first_separator(mut self, bytes: &[u8]) -> Option<usize> {
        bytes.iter().position(|byte| {
            let is_separator = *byte == b',' && !self.is_in_string();
            self = self.after_byte(*byte);
            is_separator
        })
    }

    pub(super) fn is_in_string(self) -> bool {
        matches!(self, Self::StringStart | Self::InString | Self::InEscape)
    }
}

#[cfg(test)]
mod tests {
    use super::JsonState;

    #[test]
    fn separators_are_outside_of_strings() {
        assert_eq!(JsonState::InString.first_separator(b"a, b\", \"c"), Some(5));
        assert_eq!(JsonState::InNumber.first_separator(b","), Some(0));
        assert_eq!(JsonState::InString.first_separator(b"a, b"), None);
        assert_eq!(JsonState::InEscape.first_separator(b"\", a"), None);
    }

    #[test]
    fn a_tail_may_be_within_a_string() {
        let written = b"[\"ab\", \"cd";
        assert!(!JsonState::was_outside(written, 2));
        assert!(JsonState::was_outside(written, 4));
    }
}
