//! Violations of a schema by a value, displayed as text for a model.

use std::fmt;

use super::error::PointerDisplay;
use super::exact_json::NumberFault;
use super::wording;

/// The maximum number of violations that are listed for a value. Further violations are only
/// counted.
pub(super) const MAX_LISTED: usize = 20;
/// The maximum length of one displayed violation, in bytes, without punctuation and ellipses. A
/// JSON pointer longer than a quarter of this length, and a message longer than three quarters, are
/// shortened.
const MAX_LINE_BYTES: usize = 2_000;
/// The maximum length of a number in a violation, in bytes.
const MAX_NUMBER_BYTES: usize = 80;
/// The maximum length of the displayed list of violations, in bytes, without the last line
/// `and N more`.
const MAX_TEXT_BYTES: usize = 4_000;

/// A violation of a schema at one location in a value.
///
/// `Display` writes a line for a model to read, for example
/// `/x: expected integer, received string "abc"`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Violation {
    /// The JSON pointer of the invalid value. The pointer of the root is empty, and displayed as
    /// `/`.
    pub pointer: String,
    /// A description of the allowed values, such as `integer`.
    pub expected: String,
    /// A description of the invalid value, such as `string "abc"`. Long values are shortened.
    pub received: String,
    message: String,
}

impl Violation {
    /// Creates the violation for an invalid value at the JSON pointer `pointer`.
    pub(super) fn mismatch(pointer: &str, expected: String, received: String) -> Self {
        let message = format!("expected {expected}, received {received}");
        Self { pointer: pointer.to_owned(), expected, received, message }
    }

    /// Creates the violation for the missing required property `name` of the object at `pointer`.
    /// `described` is a description of the property's schema, or `None` if the schema does not
    /// declare the property.
    pub(super) fn missing_property(pointer: &str, name: &str, described: Option<&str>) -> Self {
        let described = described.map(|words| format!(" ({words})")).unwrap_or_default();
        let name = wording::quoted(name);
        Self {
            pointer: pointer.to_owned(),
            expected: format!("required property {name}{described}"),
            received: "nothing".to_owned(),
            message: format!("missing required property {name}{described}"),
        }
    }

    /// Creates the violation for the undeclared property `name` of the object at `pointer`.
    /// `suggestion` is the most similar declared name, and `known` lists the declared names as
    /// text.
    pub(super) fn unknown_property(pointer: &str, name: &str, suggestion: Option<&str>, known: &str) -> Self {
        let hint = suggestion
            .map(|suggestion| format!(", did you mean {}?", wording::quoted(suggestion)))
            .unwrap_or_default();
        let name = wording::quoted(name);
        let after = if hint.is_empty() { ";" } else { "" };
        Self {
            pointer: pointer.to_owned(),
            expected: known.to_owned(),
            received: format!("unknown property {name}"),
            message: format!("unknown property {name}{hint}{after} {known}"),
        }
    }

    /// Creates the violation for the number `literal` at the JSON pointer `pointer`, which cannot
    /// be held because of `fault`.
    pub(super) fn inexact_number(pointer: &str, fault: NumberFault, literal: &str) -> Self {
        let (problem, expected) = match fault {
            NumberFault::IntegerRange => (
                "integer out of range",
                format!("an integer from {} to {}, or a string if the schema allows one", i64::MIN, u64::MAX),
            ),
            NumberFault::NumberRange => {
                ("number out of range", "a number with an exponent from -307 to 308".to_owned())
            }
            NumberFault::Digits => (
                "number with too many digits",
                "at most 17 significant digits, or a string if the schema allows one".to_owned(),
            ),
        };
        let literal = wording::shortened(literal, MAX_NUMBER_BYTES);
        Self {
            pointer: pointer.to_owned(),
            message: format!("{problem}: {literal}; write {expected}"),
            expected,
            received: format!("number {literal}"),
        }
    }

    /// Returns the part of the `Display` text after the JSON pointer.
    pub(super) fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = wording::shortened(&self.pointer, MAX_LINE_BYTES / 4);
        let message = wording::shortened(&self.message, MAX_LINE_BYTES - MAX_LINE_BYTES / 4);
        write!(f, "{}: {message}", PointerDisplay(&place))
    }
}

/// The violations of a schema by one value: the first 20 violations, and the number of further
/// violations.
///
/// `Display` writes one violation per line, in at most 4 KiB. If some violations do not fit or are
/// not listed, the last line is `and N more`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violations {
    listed: Vec<Violation>,
    omitted: usize,
}

impl Violations {
    /// Creates a list of violations from the first 20 violations in `listed`. The number of further
    /// violations in `listed` is added to `omitted`, the number of violations that `listed` does
    /// not contain.
    pub(super) fn new(mut listed: Vec<Violation>, omitted: usize) -> Self {
        let omitted = omitted + listed.len().saturating_sub(MAX_LISTED);
        listed.truncate(MAX_LISTED);
        Self { listed, omitted }
    }

    /// Adds `inexact`, violations for numbers that cannot be held, before the others. They replace
    /// the other violations for the same values.
    pub(super) fn with_inexact_numbers(mut self, mut inexact: Vec<Violation>) -> Self {
        self.listed.retain(|it| inexact.iter().all(|number| number.pointer != it.pointer));
        inexact.append(&mut self.listed);
        Self::new(inexact, self.omitted)
    }

    /// Returns the listed violations, at most 20, in the order of the validation errors.
    pub fn as_slice(&self) -> &[Violation] {
        &self.listed
    }

    /// Returns an iterator over the listed violations, at most 20.
    pub fn iter(&self) -> std::slice::Iter<'_, Violation> {
        self.listed.iter()
    }

    /// Returns the number of violations that are not listed.
    pub fn omitted_count(&self) -> usize {
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
        let mut room = MAX_TEXT_BYTES;
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
