use std::{
    fmt,
    hash::{Hash, Hasher},
    ops::Deref,
    sync::{Arc, OnceLock},
};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::limits;

/// The arguments of a call: the text as received, which need not be valid JSON.
///
/// The text is parsed at most once, on first use. Clones share the text and the parsed value.
/// Equality, hash and JSON form are those of the text.
///
/// # Examples
///
/// ```
/// use haft_core::call::Arguments;
///
/// let arguments = Arguments::from(r#"{"x": 1}"#);
/// assert_eq!(arguments.value()?["x"], 1);
/// assert_eq!(arguments.as_str(), r#"{"x": 1}"#);
///
/// let error = Arguments::from("x = 1").value().unwrap_err();
/// assert_eq!(error.to_string(), "not JSON: expected value at line 1 column 1; write one JSON object");
/// # Ok::<(), haft_core::call::ArgumentsError>(())
/// ```
#[derive(Clone)]
pub struct Arguments(Arc<Inner>);

struct Inner {
    text: String,
    value: OnceLock<Result<Arc<Value>, ArgumentsError>>,
}

/// The reason for which [`Arguments`] have no value. The text is for a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ArgumentsError {
    /// Longer than [`limits::ARGUMENT_BYTES`].
    #[error("{bytes} bytes are too many, at most {} are read", limits::ARGUMENT_BYTES)]
    TooLong {
        /// The length of the text in bytes.
        bytes: usize,
    },
    /// The text is not valid JSON.
    #[error("not JSON: {0}; write one JSON object")]
    NotJson(String),
}

impl Arguments {
    /// The text as received.
    pub fn as_str(&self) -> &str {
        &self.0.text
    }

    /// The parsed text.
    ///
    /// # Errors
    ///
    /// Fails if the text is longer than [`limits::ARGUMENT_BYTES`] or not valid JSON.
    pub fn value(&self) -> Result<&Value, ArgumentsError> {
        self.parsed().as_ref().map(|value| &**value).map_err(Clone::clone)
    }

    /// The parsed text, or the text as a JSON string if it has no [value](Self::value).
    pub fn to_value(&self) -> Arc<Value> {
        self.parsed().clone().unwrap_or_else(|_| Arc::new(Value::from(self.as_str())))
    }

    fn parsed(&self) -> &Result<Arc<Value>, ArgumentsError> {
        self.0.value.get_or_init(|| parse(&self.0.text))
    }
}

fn parse(text: &str) -> Result<Arc<Value>, ArgumentsError> {
    if text.len() > limits::ARGUMENT_BYTES {
        return Err(ArgumentsError::TooLong { bytes: text.len() });
    }
    serde_json::from_str(text).map(Arc::new).map_err(|error| ArgumentsError::NotJson(error.to_string()))
}

impl From<String> for Arguments {
    fn from(text: String) -> Self {
        Self(Arc::new(Inner { text, value: OnceLock::new() }))
    }
}

impl From<&str> for Arguments {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<&String> for Arguments {
    fn from(text: &String) -> Self {
        text.clone().into()
    }
}

/// The text is the compact JSON of the value.
impl From<Value> for Arguments {
    fn from(value: Value) -> Self {
        Self(Arc::new(Inner { text: value.to_string(), value: OnceLock::from(Ok(Arc::new(value))) }))
    }
}

impl Deref for Arguments {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq for Arguments {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Arguments {}

impl PartialEq<str> for Arguments {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Arguments {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl PartialEq<String> for Arguments {
    fn eq(&self, other: &String) -> bool {
        self.as_str() == other
    }
}

impl Hash for Arguments {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Debug for Arguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Arguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl Serialize for Arguments {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<'de> Deserialize<'de> for Arguments {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}
