use std::{
    fmt,
    hash::{Hash, Hasher},
    ops::Deref,
    sync::{Arc, OnceLock},
};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::exact_json::{inexact_numbers, json_text, parse_json};
use super::violation::Violations;

/// Text that should be JSON, such as the arguments of a tool call. The text is kept as received. It
/// is parsed at most once, when its value is first used.
///
/// Clones share the text and the parsed value. Equality, hash and serialization use the text.
///
/// # Examples
///
/// ```
/// use haft_schema::JsonText;
///
/// let text = JsonText::from(r#"{"x": 1}"#);
/// assert_eq!(text.value()?["x"], 1);
/// assert_eq!(text.as_str(), r#"{"x": 1}"#);
///
/// let error = JsonText::from("x = 1").value().unwrap_err();
/// assert_eq!(error.to_string(), "not JSON: expected value at line 1 column 1");
/// # Ok::<(), haft_schema::JsonTextError>(())
/// ```
#[derive(Clone)]
pub struct JsonText(Arc<Inner>);

struct Inner {
    text: String,
    value: OnceLock<Result<Arc<Value>, JsonTextError>>,
}

/// The error of [`JsonText::value`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JsonTextError {
    /// The text is not valid JSON. The field is the message of the parser.
    #[error("not JSON: {0}")]
    NotJson(String),
    /// The text contains numbers that cannot be held exactly. See
    /// [`parse_json`](crate::parse_json).
    #[error("{0}")]
    InexactNumbers(Violations),
}

impl JsonText {
    /// Returns the text as received.
    pub fn as_str(&self) -> &str {
        &self.0.text
    }

    /// Returns the parsed JSON value.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not valid JSON, or is nested deeper than 127 levels, the
    /// limit of `serde_json`. Also returns an error if it contains a number that cannot be held
    /// exactly, such as an integer beyond 64 bits.
    pub fn value(&self) -> Result<&Value, JsonTextError> {
        self.parsed().as_ref().map(|value| &**value).map_err(Clone::clone)
    }

    /// Returns the parsed JSON value. Text for which [`value`](Self::value) fails is returned as a
    /// JSON string.
    pub fn value_or_string(&self) -> Arc<Value> {
        self.parsed().clone().unwrap_or_else(|_| Arc::new(Value::from(self.as_str())))
    }

    fn parsed(&self) -> &Result<Arc<Value>, JsonTextError> {
        let parse = || parse_json(&self.0.text).map_err(|error| JsonTextError::NotJson(error.to_string()));
        self.0.value.get_or_init(|| parse().and_then(exact))
    }
}

/// Returns `value`, or an error if a number in it could not be held.
fn exact(value: Value) -> Result<Arc<Value>, JsonTextError> {
    let inexact = inexact_numbers(&value);
    if inexact.is_empty() {
        Ok(Arc::new(value))
    } else {
        Err(JsonTextError::InexactNumbers(Violations::new(inexact, 0)))
    }
}

impl From<String> for JsonText {
    fn from(text: String) -> Self {
        Self(Arc::new(Inner { text, value: OnceLock::new() }))
    }
}

impl From<&str> for JsonText {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<&String> for JsonText {
    fn from(text: &String) -> Self {
        text.clone().into()
    }
}

/// Uses the [compact JSON](crate::json_text) of the value as the text. The text is not parsed
/// again, so [`JsonText::value`] succeeds even for a value nested deeper than 127 levels.
impl From<Value> for JsonText {
    fn from(value: Value) -> Self {
        Self(Arc::new(Inner { text: json_text(&value), value: OnceLock::from(exact(value)) }))
    }
}

impl Deref for JsonText {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq for JsonText {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for JsonText {}

impl PartialEq<str> for JsonText {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for JsonText {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl PartialEq<String> for JsonText {
    fn eq(&self, other: &String) -> bool {
        self.as_str() == other
    }
}

impl Hash for JsonText {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Debug for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl Serialize for JsonText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<'de> Deserialize<'de> for JsonText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}
