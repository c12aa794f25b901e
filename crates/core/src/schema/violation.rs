//! What does not fit, in words.

use std::fmt;

use super::error::Place;

/// How many violations are shown; the others are counted.
const SHOWN: usize = 20;

/// One place where a value does not fit its schema.
///
/// Shown as one line that a model can act on, such as `/x: expected integer, received string "abc"`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Violation {
    /// The JSON pointer of the value that does not fit. The root is the empty pointer, shown as `/`.
    pub pointer: String,
    /// What the schema asks for, in words.
    pub expected: String,
    /// What is there instead, in words; long values are shortened.
    pub received: String,
    message: String,
}

impl Violation {
    /// A value of the wrong kind.
    pub(super) fn mismatch(pointer: &str, expected: String, received: String) -> Self {
        let message = format!("expected {expected}, received {received}");
        Self { pointer: pointer.to_owned(), expected, received, message }
    }

    /// A required property that is not there.
    pub(super) fn missing(pointer: &str, name: &str, described: Option<&str>) -> Self {
        let described = described.map(|words| format!(" ({words})")).unwrap_or_default();
        Self {
            pointer: pointer.to_owned(),
            expected: format!("required property {name:?}{described}"),
            received: "nothing".to_owned(),
            message: format!("missing required property {name:?}{described}"),
        }
    }

    /// A property that the schema does not know.
    pub(super) fn unknown(pointer: &str, name: &str, meant: Option<&str>, known: &str) -> Self {
        let hint = meant.map(|meant| format!(", did you mean {meant:?}?")).unwrap_or_default();
        let after = if hint.is_empty() { ";" } else { "" };
        Self {
            pointer: pointer.to_owned(),
            expected: known.to_owned(),
            received: format!("unknown property {name:?}"),
            message: format!("unknown property {name:?}{hint}{after} {known}"),
        }
    }

    /// The line without the pointer.
    pub(super) fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", Place(&self.pointer), self.message)
    }
}

/// Everything about a value that does not fit its schema, one line each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violations(Vec<Violation>);

impl Violations {
    /// All of them, in the order of the schema's keywords.
    pub fn as_slice(&self) -> &[Violation] {
        &self.0
    }

    /// Goes through all of them.
    pub fn iter(&self) -> std::slice::Iter<'_, Violation> {
        self.0.iter()
    }
}

impl From<Vec<Violation>> for Violations {
    fn from(violations: Vec<Violation>) -> Self {
        Self(violations)
    }
}

impl<'a> IntoIterator for &'a Violations {
    type Item = &'a Violation;
    type IntoIter = std::slice::Iter<'a, Violation>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, violation) in self.iter().take(SHOWN).enumerate() {
            let before = if index == 0 { "" } else { "\n" };
            write!(f, "{before}{violation}")?;
        }
        match self.0.len().checked_sub(SHOWN) {
            None | Some(0) => Ok(()),
            Some(more) => write!(f, "\nand {more} more"),
        }
    }
}

impl std::error::Error for Violations {}
