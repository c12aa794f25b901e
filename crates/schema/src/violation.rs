//! Violations of a schema, as text for a model.

use std::fmt;

use super::error::PointerDisplay;
use super::text;

/// Maximum number of listed violations. Further ones are counted.
pub(super) const LISTED: usize = 20;
/// Maximum length of a violation, in bytes. Names and values in it may be of any length.
const MAX_LINE: usize = 2_000;
/// Maximum length of all violations together, in bytes.
const MAX_TEXT: usize = 4_000;

/// A violation of a schema at one location of a value.
///
/// Displayed as one line for a model: `/x: expected integer, received string "abc"`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Violation {
    /// The JSON pointer of the invalid value. The root is the empty pointer, displayed as `/`.
    pub pointer: String,
    /// The requirement of the schema, as text: `integer`.
    pub expected: String,
    /// The actual value, as text: `string "abc"`. Long values are shortened.
    pub received: String,
    message: String,
}

impl Violation {
    /// An unexpected value.
    pub(super) fn mismatch(pointer: &str, expected: String, received: String) -> Self {
        let message = format!("expected {expected}, received {received}");
        Self { pointer: pointer.to_owned(), expected, received, message }
    }

    /// A missing required property.
    pub(super) fn missing(pointer: &str, name: &str, described: Option<&str>) -> Self {
        let described = described.map(|words| format!(" ({words})")).unwrap_or_default();
        let name = text::quoted(name);
        Self {
            pointer: pointer.to_owned(),
            expected: format!("required property {name}{described}"),
            received: "nothing".to_owned(),
            message: format!("missing required property {name}{described}"),
        }
    }

    /// An undeclared property. `suggestion` is the most similar declared name.
    pub(super) fn unknown(pointer: &str, name: &str, suggestion: Option<&str>, known: &str) -> Self {
        let hint = suggestion
            .map(|suggestion| format!(", did you mean {}?", text::quoted(suggestion)))
            .unwrap_or_default();
        let name = text::quoted(name);
        let after = if hint.is_empty() { ";" } else { "" };
        Self {
            pointer: pointer.to_owned(),
            expected: known.to_owned(),
            received: format!("unknown property {name}"),
            message: format!("unknown property {name}{hint}{after} {known}"),
        }
    }

    /// Returns the line without the pointer.
    pub(super) fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = text::shortened(&self.pointer, MAX_LINE / 4);
        let message = text::shortened(&self.message, MAX_LINE - MAX_LINE / 4);
        write!(f, "{}: {message}", PointerDisplay(&place))
    }
}

/// The violations of one value: the first 20, and the number of further ones.
///
/// Displayed one per line, in at most 4 KiB.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violations {
    listed: Vec<Violation>,
    omitted: usize,
}

impl Violations {
    /// Creates a list from violations and the number of violations that are not in it.
    pub(super) fn new(mut listed: Vec<Violation>, omitted: usize) -> Self {
        let omitted = omitted + listed.len().saturating_sub(LISTED);
        listed.truncate(LISTED);
        Self { listed, omitted }
    }

    /// Returns the first violations, at most 20, in the order of the schema's keywords.
    pub fn as_slice(&self) -> &[Violation] {
        &self.listed
    }

    /// Iterates over the first violations, at most 20.
    pub fn iter(&self) -> std::slice::Iter<'_, Violation> {
        self.listed.iter()
    }

    /// Returns the number of violations that are not listed.
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
        let mut room = MAX_TEXT;
        let mut lines = 0;
        for violation in self {
            let line = violation.to_string();
            let Some(left) = room.checked_sub(line.len() + 1) else { break };
            let before = if lines == 0 { "" } else { "\n" };
            write!(f, "{before}{line}")?;
            room = left;
            lines += 1;
        }
        match self.listed.len() - lines + self.omitted {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}

impl std::error::Error for Violations {}
