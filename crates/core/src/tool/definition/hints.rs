//! What is said about a tool beside what it does.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Hints about a tool's behaviour, in the words of MCP. They come from outside: never trusted, never sent to a model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Annotations {
    /// It changes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// It may destroy what is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destructive: Option<bool>,
    /// Calling twice has the effect of calling once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// It meets a world that is not closed, such as the web.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_world: Option<bool>,
}

impl Annotations {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// That a tool should no longer be used, and what to use in its place. [`Display`](fmt::Display) says both.
///
/// # Examples
///
/// ```
/// use haft_core::tool::Deprecation;
///
/// let deprecation = Deprecation { replacement: Some("trash".into()), note: Some("it deletes for good".into()) };
/// assert_eq!(deprecation.to_string(), r#"deprecated: it deletes for good; use "trash""#);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deprecation {
    /// The name of the tool that replaces it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replacement: Option<String>,
    /// Why, or what to do.
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
