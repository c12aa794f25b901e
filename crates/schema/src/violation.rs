//! What does not fit, in words.

use std::fmt;

use super::describe;
use super::error::Place;

/// How many violations are listed; the others are counted.
pub(super) const LISTED: usize = 20;
/// How long one line may be, and all of them together, in bytes. What a schema or a value names may be of any length.
const LINE: usize = 2_000;
const TEXT: usize = 4_000;

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
        let name = describe::quoted(name);
        Self {
            pointer: pointer.to_owned(),
            expected: format!("required property {name}{described}"),
            received: "nothing".to_owned(),
            message: format!("missing required property {name}{described}"),
        }
    }

    /// A property that the schema does not know.
    pub(super) fn unknown(pointer: &str, name: &str, meant: Option<&str>, known: &str) -> Self {
        let hint =
            meant.map(|meant| format!(", did you mean {}?", describe::quoted(meant))).unwrap_or_default();
        let name = describe::quoted(name);
        let after = if hint.is_empty() { ";" } else { "" };
        Self {
            pointer: pointer.to_owned(),
            expected: known.to_owned(),
            received: format!("unknown property {name}"),
            message: format!("unknown property {name}{hint}{after} {known}"),
        }
    }

    /// The line without the pointer.
    pub(super) fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = describe::shortened(&self.pointer, LINE / 4);
        let message = describe::shortened(&self.message, LINE - LINE / 4);
        write!(f, "{}: {message}", Place(&place))
    }
}

/// What does not fit about a value: its first violations, and how many more there are.
///
/// Shown one line each, in at most 4 KiB.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violations {
    listed: Vec<Violation>,
    omitted: usize,
}

impl Violations {
    /// Some violations and a number of others, of which the first ones are kept.
    pub(super) fn new(mut listed: Vec<Violation>, omitted: usize) -> Self {
        let omitted = omitted + listed.len().saturating_sub(LISTED);
        listed.truncate(LISTED);
        Self { listed, omitted }
    }

    /// The first of them, at most 20, in the order of the schema's keywords.
    pub fn as_slice(&self) -> &[Violation] {
        &self.listed
    }

    /// Goes through the first of them, at most 20.
    pub fn iter(&self) -> std::slice::Iter<'_, Violation> {
        self.listed.iter()
    }

    /// How many violations there are besides those that are listed.
    pub fn omitted(&self) -> usize {
        self.omitted
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
        let mut room = TEXT;
        let mut shown = 0;
        for violation in self {
            let line = violation.to_string();
            let Some(left) = room.checked_sub(line.len() + 1) else { break };
            let before = if shown == 0 { "" } else { "\n" };
            write!(f, "{before}{line}")?;
            room = left;
            shown += 1;
        }
        match self.listed.len() - shown + self.omitted {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}

impl std::error::Error for Violations {}
