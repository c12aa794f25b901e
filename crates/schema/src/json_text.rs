use std::{
    fmt,
    hash::{Hash, Hasher},
    ops::Deref,
    sync::{Arc, OnceLock},
};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

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
/// # Ok::<(), haft_schema::NotJson>(())
/// ```
#[derive(Clone)]
pub struct JsonText(Arc<Inner>);

struct Inner {
    text: String,
    value: OnceLock<Result<Arc<Value>, NotJson>>,
}

/// The error that [`JsonText::value`] returns for text that cannot be parsed as JSON.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not JSON: {0}")]
pub struct NotJson(String);

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
    /// limit of `serde_json`.
    pub fn value(&self) -> Result<&Value, NotJson> {
        self.parsed().as_ref().map(|value| &**value).map_err(Clone::clone)
    }

    /// Returns the parsed JSON value. Text that is not valid JSON is returned as a JSON string.
    pub fn value_or_string(&self) -> Arc<Value> {
        self.parsed().clone().unwrap_or_else(|_| Arc::new(Value::from(self.as_str())))
    }

    fn parsed(&self) -> &Result<Arc<Value>, NotJson> {
        let parse = || serde_json::from_str(&self.0.text).map_err(|error| NotJson(error.to_string()));
        self.0.value.get_or_init(|| parse().map(Arc::new))
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

/// Uses the compact JSON of the value as the text. The text is not parsed again, so
/// [`JsonText::value`] succeeds even for a value nested deeper than 127 levels.
impl From<Value> for JsonText {
    fn from(value: Value) -> Self {
        Self(Arc::new(Inner { text: value.to_string(), value: OnceLock::from(Ok(Arc::new(value))) }))
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
