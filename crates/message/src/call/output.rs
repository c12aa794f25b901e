use std::{borrow::Cow, collections::BTreeMap};

use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::Pending;
use crate::content::{Content, join_texts};

/// The return value of a tool: an output, or a pending state.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a call is done or pending")]
pub enum ToolResponse {
    /// The output of a completed call.
    Done(ToolOutput),
    /// The pending state of a call that needs a decision. The run is suspended until the decision
    /// arrives.
    ///
    /// If the decision is a denial, an output or a failure, the call ends. After any other
    /// decision, the tool is called again and reads the decision with `ToolContext::decision`.
    Pending(Pending),
}

/// The output of a successful tool call.
///
/// # Examples
///
/// ```
/// use haft_message::{content::Content, ToolOutput};
/// use serde_json::json;
///
/// assert_eq!(ToolOutput::from("42").to_value(), json!("42"));
/// assert_eq!(ToolOutput::structured(json!({"sum": 42})).text(), r#"{"sum":42}"#);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ToolOutput {
    /// The content for the model: an ordered list of text, media and other pieces.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub content: Vec<Content>,
    /// The result as data for programs. `None` means that there is no structured result, and
    /// `Some(Value::Null)` means that the result is null.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "deserialize_some")]
    pub structured: Option<Value>,
    /// Warnings about the call, for the model and for the program.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The handle of the full output in the `ResultStore` of the pipeline. `None` if `content` is
    /// complete or the full output was not stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_handle: Option<String>,
    /// Metadata for programs and people, for example the `_meta` object of an MCP result and the
    /// annotations of its content. It is untrusted, and never sent to a model.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, Value>,
}

/// Deserializes null as `Some(Value::Null)`. Serde's default is `None`.
fn deserialize_some<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl ToolOutput {
    /// Returns the total size of the output in bytes: the text or the binary data of each content
    /// piece, the structured data as JSON text, and the warnings.
    pub fn byte_len(&self) -> usize {
        let content = self.content.iter().map(|piece| match piece.media_len() {
            0 => piece.as_text().len(),
            media => media,
        });
        let structured = self.structured.as_ref().map(|value| value.to_string().len());
        let warnings = self.warnings.iter().map(String::len);
        content.chain(structured).chain(warnings).sum()
    }

    /// Creates an output with structured data. Its content is the JSON text of `value`, or the
    /// string itself if `value` is a string.
    pub fn structured(value: Value) -> Self {
        let content = match &value {
            Value::String(text) => Content::text(text),
            other => Content::text(other.to_string()),
        };
        Self { content: vec![content], structured: Some(value), ..Self::default() }
    }

    /// Adds a warning for the model and for the program.
    #[must_use]
    pub fn with_warning(mut self, warning: impl Into<String>) -> Self {
        self.warnings.push(warning.into());
        self
    }

    /// Deserializes the structured data, or the text as JSON if there is no structured data.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_message::ToolOutput;
    /// use serde_json::json;
    ///
    /// let output = ToolOutput::structured(json!({"sum": 42}));
    /// let sums: std::collections::HashMap<String, i64> = output.parse()?;
    /// assert_eq!(sums["sum"], 42);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fails if the data does not match `T`.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        match &self.structured {
            Some(value) => T::deserialize(value),
            None => serde_json::from_str(&self.text()),
        }
    }

    /// Returns the text for the model: all pieces of the content, joined with line breaks.
    ///
    /// If the content is empty, returns the JSON text of the structured data, or an empty string if
    /// there is no structured data.
    pub fn text(&self) -> Cow<'_, str> {
        match self.content.as_slice() {
            [] => self.structured.as_ref().map_or_else(Cow::default, |value| value.to_string().into()),
            [only] => only.as_text(),
            pieces => Cow::Owned(join_texts(pieces)),
        }
    }

    /// Returns the output as a JSON value: the structured data, or else the converted content.
    ///
    /// A text piece is converted to a string, a JSON piece to its value, and any other piece is
    /// serialized. A single piece becomes a single value, several pieces become an array, and empty
    /// content becomes an empty string.
    pub fn to_value(&self) -> Value {
        if let Some(structured) = &self.structured {
            return structured.clone();
        }
        match self.content.as_slice() {
            [] => Value::String(String::new()),
            [only] => content_to_value(only),
            pieces => pieces.iter().map(content_to_value).collect(),
        }
    }
}

fn content_to_value(content: &Content) -> Value {
    match content {
        Content::Text { text } => Value::String(text.clone()),
        Content::Json { value } => value.clone(),
        // Serialization cannot fail, because the other variants contain only strings and binary
        // data.
        other => serde_json::to_value(other).unwrap_or_else(|_| Value::String(other.as_text().into_owned())),
    }
}

impl<T: Into<Content>> From<T> for ToolOutput {
    fn from(content: T) -> Self {
        Self { content: vec![content.into()], ..Self::default() }
    }
}

impl<T: Into<ToolOutput>> From<T> for ToolResponse {
    fn from(output: T) -> Self {
        Self::Done(output.into())
    }
}
