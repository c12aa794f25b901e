//! Annotations and deprecation notices of tools.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Hints of a tool about its behavior (`ToolAnnotations` in MCP). Hints are untrusted, and are
/// never sent to a model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Annotations {
    /// `Some(true)` if the tool does not modify its environment (`readOnlyHint`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// `Some(true)` if the tool may delete or overwrite data (`destructiveHint`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destructive: Option<bool>,
    /// `Some(true)` if a repeated call with the same arguments has no further effect
    /// (`idempotentHint`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// `Some(true)` if the tool interacts with external entities, for example the web
    /// (`openWorldHint`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_world: Option<bool>,
}

impl Annotations {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The deprecation notice of a tool. [`Display`](fmt::Display) prints the note and the name of the
/// replacement, if set.
///
/// # Examples
///
/// ```
/// use haft_core::tool::Deprecation;
///
/// let deprecation = Deprecation {
///     replacement: Some("trash".into()),
///     note: Some("it deletes for good".into()),
/// };
/// assert_eq!(deprecation.to_string(), r#"deprecated: it deletes for good; use "trash""#);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deprecation {
    /// The name of the replacement tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replacement: Option<String>,
    /// The reason for the deprecation, or advice for callers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl fmt::Display for Deprecation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { replacement, note } = self;
        f.write_str("deprecated")?;
        if let Some(note) = note {
            write!(f, ": {note}")?;
        }
        replacement.as_ref().map_or(Ok(()), |replacement| write!(f, "; use {replacement:?}"))
    }
}
