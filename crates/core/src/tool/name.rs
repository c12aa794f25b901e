use std::{borrow::Borrow, fmt, sync::Arc};

use serde::{Deserialize, Serialize};

/// The name by which models call a tool: `^[A-Za-z0-9_-]{1,64}$`.
///
/// # Examples
///
/// ```
/// use haft_core::ToolName;
///
/// assert!(ToolName::new("get_weather").is_ok());
/// assert!(ToolName::new("get.weather").is_err());
/// // Names from outside are mapped: valid, readable, and the same wherever and whenever it is done.
/// assert!(ToolName::from_foreign("get.weather").as_str().starts_with("get_weather_"));
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct ToolName(Arc<str>);

/// A text that is no [`ToolName`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{name}\" is not a tool name: use 1 to 64 of the letters A-Z and a-z, digits, \"_\" and \"-\"")]
pub struct InvalidToolName {
    /// The text.
    pub name: String,
}

const MAX_LEN: usize = 64;
/// Hexadecimal digits of a hash: 48 bits of it.
const HASH_LEN: usize = 12;

impl ToolName {
    /// Takes a name as it is.
    ///
    /// # Errors
    ///
    /// Fails when `name` is empty, longer than 64 bytes, or has another character than the allowed.
    pub fn new(name: impl AsRef<str>) -> Result<Self, InvalidToolName> {
        let name = name.as_ref();
        if is_valid(name) { Ok(Self(name.into())) } else { Err(InvalidToolName { name: name.into() }) }
    }

    /// Maps any name from outside.
    ///
    /// A valid name stays as it is. Any other becomes its readable part and a hash of the whole. A valid name
    /// that looks like the result of this mapping is mapped too, so that different names stay different
    /// whatever else there is, and in whatever order they come.
    pub fn from_foreign(foreign: &str) -> Self {
        if is_valid(foreign) && !looks_mapped(foreign) {
            return Self(foreign.into());
        }
        let mut name: String = foreign.chars().map(|c| if is_allowed(c) { c } else { '_' }).collect();
        name.truncate(MAX_LEN - HASH_LEN - 1);
        let readable = name.trim_end_matches('_');
        let readable = if readable.is_empty() { "tool" } else { readable };
        Self(format!("{readable}_{:012x}", fnv1a(foreign) & 0xffff_ffff_ffff).into())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_allowed(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

fn is_valid(name: &str) -> bool {
    (1..=MAX_LEN).contains(&name.len()) && name.chars().all(is_allowed)
}

fn looks_mapped(name: &str) -> bool {
    name.rsplit_once('_').is_some_and(|(_, hash)| {
        hash.len() == HASH_LEN && hash.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    })
}

/// FNV-1a, 64 bits: stable across builds and versions, which the hashers of the standard library are not.
fn fnv1a(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl TryFrom<String> for ToolName {
    type Error = InvalidToolName;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        Self::new(name)
    }
}

impl TryFrom<&str> for ToolName {
    type Error = InvalidToolName;

    fn try_from(name: &str) -> Result<Self, Self::Error> {
        Self::new(name)
    }
}

impl Borrow<str> for ToolName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for ToolName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl PartialEq<str> for ToolName {
    fn eq(&self, other: &str) -> bool {
        &*self.0 == other
    }
}

impl PartialEq<&str> for ToolName {
    fn eq(&self, other: &&str) -> bool {
        &*self.0 == *other
    }
}

#[cfg(test)]
mod tests;
