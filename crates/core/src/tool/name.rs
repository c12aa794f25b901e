use std::{borrow::Borrow, fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use super::definition::sha256_hex;

/// A valid tool name. It matches `^[A-Za-z0-9_-]{1,64}$`.
///
/// # Examples
///
/// ```
/// use haft_core::ToolName;
///
/// assert!(ToolName::new("get_weather").is_ok());
/// assert!(ToolName::new("get.weather").is_err());
/// // Other names are mapped to a readable name with a hash.
/// assert!(ToolName::sanitize("get.weather").as_str().starts_with("get_weather_"));
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct ToolName(Arc<str>);

/// The error for a string that is not a valid [`ToolName`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{name}\" is not a tool name: use 1 to 64 of the letters A-Z and a-z, digits, \"_\" and \"-\"")]
pub struct InvalidToolName {
    /// The rejected string.
    pub name: String,
}

const MAX_NAME_BYTES: usize = 64;
/// The number of hexadecimal digits in the hash at the end of a converted name. 12 digits encode 48
/// bits.
const HASH_DIGITS: usize = 12;

impl ToolName {
    /// Checks `name` and creates a tool name from it.
    ///
    /// # Errors
    ///
    /// Fails if `name` is empty, longer than 64 bytes, or contains a character other than ASCII
    /// letters, digits, `_` and `-`.
    pub fn new(name: impl AsRef<str>) -> Result<Self, InvalidToolName> {
        let name = name.as_ref();
        if is_valid(name) { Ok(Self(name.into())) } else { Err(InvalidToolName { name: name.into() }) }
    }

    /// Converts the string `foreign`, for example the name of a tool on a server, to a valid tool
    /// name.
    ///
    /// A valid name is returned unchanged. In an invalid name, invalid characters are replaced with
    /// `_`, the name is shortened if necessary, and trailing `_` are removed. An empty result is
    /// replaced with `tool`. Then `_` and the first 48 bits of the SHA-256 digest of `foreign` are
    /// appended, as 12 lowercase hexadecimal digits. For example, `get.weather` becomes
    /// `get_weather_f65d43288143`.
    ///
    /// A valid name that already ends with `_` and 12 lowercase hexadecimal digits is converted as
    /// well, so that it cannot imitate a converted name.
    ///
    /// The same `foreign` is converted to the same name in every version of haft.
    pub fn sanitize(foreign: &str) -> Self {
        if is_valid(foreign) && !has_hash_suffix(foreign) {
            return Self(foreign.into());
        }
        let mut name: String = foreign.chars().map(|c| if is_allowed(c) { c } else { '_' }).collect();
        name.truncate(MAX_NAME_BYTES - HASH_DIGITS - 1);
        let readable = name.trim_end_matches('_');
        let readable = if readable.is_empty() { "tool" } else { readable };
        // Finding a foreign name that is converted to a given name takes about 2^48 attempts, which
        // is expensive but possible. Even then, the new tool cannot replace the existing tool,
        // because a toolset keeps only the first tool with each name.
        let digest = sha256_hex(foreign);
        Self(format!("{readable}_{}", &digest[..HASH_DIGITS]).into())
    }

    /// Returns the name as a string slice.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_allowed(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

fn is_valid(name: &str) -> bool {
    (1..=MAX_NAME_BYTES).contains(&name.len()) && name.chars().all(is_allowed)
}

fn has_hash_suffix(name: &str) -> bool {
    name.rsplit_once('_').is_some_and(|(_, hash)| {
        hash.len() == HASH_DIGITS && hash.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    })
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
