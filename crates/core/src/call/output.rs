use std::{borrow::Cow, collections::BTreeMap};

use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::Pending;
use crate::content::{Content, text_of};

/// What a tool returns when it did not fail.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a call is done or pending")]
pub enum ToolOutcome {
    /// The work is done.
    Done(ToolOutput),
    /// Somebody else must act first: the run waits. The tool is called again with the decision in
    /// [`ToolContext::decision`](crate::tool::ToolContext::decision).
    Pending(Pending),
}

/// What a call produced.
///
/// # Examples
///
/// ```
/// use haft_core::{content::Content, ToolOutput};
/// use serde_json::json;
///
/// assert_eq!(ToolOutput::from("42").to_value(), json!("42"));
/// assert_eq!(ToolOutput::structured(json!({"sum": 42})).text(), r#"{"sum":42}"#);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ToolOutput {
    /// What the model reads, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub content: Vec<Content>,
    /// The result as data. `Some(Value::Null)` is an explicit null, `None` is no data at all.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub structured: Option<Value>,
    /// What the caller should know although the call went well.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Where the whole is, when `content` was shortened: a key of the [`ResultStore`](crate::pipeline::ResultStore).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stored: Option<String>,
    /// What came with the result and is for programs and people, such as an MCP server's `_meta` and the annotations
    /// of its content. Never sent to a model, never trusted.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, Value>,
}

/// Serde reads null into `None`; here null that is present is a value.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl ToolOutput {
    /// The size in bytes of text, media, structured content and warnings.
    pub fn byte_len(&self) -> usize {
        let content = self.content.iter().map(|piece| piece.as_text().len() + piece.media_len());
        let structured = self.structured.as_ref().map(|value| value.to_string().len());
        let warnings = self.warnings.iter().map(String::len);
        content.chain(structured).chain(warnings).sum()
    }

    /// Makes an output of data; the model reads it as JSON text, and a string as it is.
    pub fn structured(value: Value) -> Self {
        let content = match &value {
            Value::String(text) => Content::text(text),
            other => Content::text(other.to_string()),
        };
        Self { content: vec![content], structured: Some(value), ..Self::default() }
    }

    /// Adds something that the caller should know.
    #[must_use]
    pub fn with_warning(mut self, warning: impl Into<String>) -> Self {
        self.warnings.push(warning.into());
        self
    }

    /// Reads the output as a value of a type: the structured data, or else the text as JSON.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::ToolOutput;
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
    /// Fails where it is no such value.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        match &self.structured {
            Some(value) => T::deserialize(value),
            None => serde_json::from_str(&self.text()),
        }
    }

    /// What a model reads: the content as text, pieces joined by line breaks. Without content, the structured
    /// data as JSON text.
    pub fn text(&self) -> Cow<'_, str> {
        match self.content.as_slice() {
            [] => self.structured.as_ref().map_or_else(Cow::default, |value| value.to_string().into()),
            [only] => only.as_text(),
            pieces => Cow::Owned(text_of(pieces)),
        }
    }

    /// The output as one value: the structured data if there is any; else one text as a string, several as a
    /// list in their order, none as `""`, and pieces that are not text as their JSON.
    pub fn to_value(&self) -> Value {
        if let Some(structured) = &self.structured {
            return structured.clone();
        }
        match self.content.as_slice() {
            [] => Value::String(String::new()),
            [only] => value_of(only),
            pieces => pieces.iter().map(value_of).collect(),
        }
    }
}

fn value_of(content: &Content) -> Value {
    match content {
        Content::Text { text } => Value::String(text.clone()),
        Content::Json { value } => value.clone(),
        // A piece is made of strings and JSON only, so that it always has a JSON form.
        other => serde_json::to_value(other).unwrap_or_else(|_| Value::String(other.as_text().into_owned())),
    }
}

impl<T: Into<Content>> From<T> for ToolOutput {
    fn from(content: T) -> Self {
        Self { content: vec![content.into()], ..Self::default() }
    }
}

impl<T: Into<ToolOutput>> From<T> for ToolOutcome {
    fn from(output: T) -> Self {
        Self::Done(output.into())
    }
}
