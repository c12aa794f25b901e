use std::{borrow::Cow, collections::BTreeMap};

use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::{Content, ToolCall, message::text_of};

/// What a tool returns when it did not fail.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolOutcome {
    /// The work is done.
    Done(ToolOutput),
    /// Somebody else must act first: the run waits. The tool is called again with the answer in
    /// [`ToolContext::answer`](crate::ToolContext::answer).
    Pending(Pending),
}

/// What a call produced.
///
/// # Examples
///
/// ```
/// use haft_core::{Content, ToolOutput};
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
    /// Where the whole is, when `content` was shortened: a key of the [`ResultStore`](crate::ResultStore).
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

/// What a tool says when it must wait.
///
/// # Examples
///
/// ```
/// use haft_core::{Answer, Pending, PendingKind, ToolContext, ToolOutcome, tool};
/// use serde_json::json;
///
/// /// Books a seat.
/// #[tool]
/// fn book(#[tool(context)] cx: &ToolContext) -> ToolOutcome {
///     match (cx.answer(), cx.pending_state()) {
///         (Some(Answer::Input { value }), Some(offer)) => format!("{value} of offer {offer}").into(),
///         _ => ToolOutcome::Pending(Pending::new(PendingKind::input("Which seat?")).with_state(json!(7))),
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Pending {
    /// What it waits for.
    pub kind: PendingKind,
    /// What the tool needs to go on, for the tool alone: it reads it in
    /// [`ToolContext::pending_state`](crate::ToolContext::pending_state).
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub state: Value,
    /// The arguments that somebody permitted, when a call that needed that waits once more. The gate sets it, so
    /// that nobody is asked twice, and what was permitted is what runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved: Option<Value>,
    /// The [fingerprint](crate::ToolDefinition::fingerprint) of the tool when somebody was asked to permit the call: a permission is for
    /// that tool, and one that says something else by then is asked for again. The gate sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<String>,
}

impl Pending {
    /// Waits for this, with nothing to keep.
    pub fn new(kind: PendingKind) -> Self {
        Self { kind, state: Value::Null, approved: None, definition: None }
    }

    /// Keeps what the tool needs to go on.
    #[must_use]
    pub fn with_state(mut self, state: Value) -> Self {
        self.state = state;
        self
    }
}

/// A call that waits for somebody: an approval, an answer, work done elsewhere.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PendingCall {
    /// The call that waits; an answer carries its id.
    pub call: ToolCall,
    /// What it waits for.
    #[serde(flatten)]
    pub pending: Pending,
}

impl PendingCall {
    /// Whether an answer of this id is for the call itself or for one inside it.
    pub fn covers(&self, id: &str) -> bool {
        self.call.id == id || self.inner().iter().any(|inner| inner.covers(id))
    }

    /// The calls that somebody must answer: this one, or those that a child run waits for.
    pub fn leaves(&self) -> Vec<&Self> {
        match &self.pending.kind {
            PendingKind::Nested { pending } => pending.iter().flat_map(Self::leaves).collect(),
            _ => vec![self],
        }
    }

    fn inner(&self) -> &[Self] {
        match &self.pending.kind {
            PendingKind::Nested { pending } => pending,
            _ => &[],
        }
    }
}

/// What a pending call waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum PendingKind {
    /// A person's permission to run the call with exactly these arguments.
    Approval {
        /// The arguments that were shown, parsed and repaired.
        arguments: Value,
    },
    /// An answer of a person.
    Input {
        /// The question.
        message: String,
        /// What the answer must look like, as JSON Schema.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        schema: Map<String, Value>,
    },
    /// Work that the host program does itself.
    External,
    /// A child run that waits in its turn.
    Nested {
        /// What the child waits for.
        pending: Vec<PendingCall>,
    },
}

impl PendingKind {
    /// Asks a person, whose answer may be anything.
    pub fn input(message: impl Into<String>) -> Self {
        Self::Input { message: message.into(), schema: Map::new() }
    }
}
