//! Histories in the JSON of a provider, read into messages.

mod content;

use std::{
    collections::{HashMap, HashSet},
    fmt,
    time::Duration,
};

use serde_json::Value;

use crate::{
    Message, Timestamp, ToolOutput, ToolResult, Transcript,
    call::{Failure, FailureKind, Outcome},
    content::Content,
};

pub use content::{PartReader, decode_media, remote_image, remote_image_url};

/// The messages read from a history.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct History {
    /// The messages, in order.
    pub messages: Vec<Message>,
    /// The parts of the history that the messages do not contain, for example a file that is only
    /// referenced by its id.
    pub omitted: Vec<Omission>,
}

impl History {
    /// Returns the messages as a transcript. Pass it to
    /// [`RunInput::with_history`](crate::RunInput::with_history).
    pub fn into_transcript(self) -> Transcript {
        self.messages.into_iter().collect()
    }
}

/// A part of a history that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Omission {
    /// The path of the part, such as `messages/0/content/1`.
    pub path: String,
    /// The reason as text.
    pub reason: String,
}

impl fmt::Display for Omission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.reason)
    }
}

/// An error in a history: a message, a call or a result is malformed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HistoryError {
    /// The path of the malformed value, such as `messages/3/tool_calls/0`.
    pub path: String,
    /// The problem as text.
    pub problem: String,
}

impl fmt::Display for HistoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.problem)
    }
}

impl std::error::Error for HistoryError {}

impl HistoryError {
    /// Creates an error for the value at `path`.
    pub fn new(path: impl fmt::Display, problem: impl fmt::Display) -> Self {
        Self { path: path.to_string(), problem: problem.to_string() }
    }
}

/// The state of the reader of one history.
#[derive(Debug, Default)]
pub struct HistoryReader {
    history: History,
    /// The tool names of the calls read so far, by call id.
    calls: HashMap<String, String>,
    /// The ids of the omitted calls.
    omitted_calls: HashSet<String>,
}

impl HistoryReader {
    /// Returns the messages read so far.
    pub fn messages(&self) -> &[Message] {
        &self.history.messages
    }

    /// Returns the history.
    pub fn finish(self) -> History {
        self.history
    }

    /// Adds `message` to the history.
    pub fn push(&mut self, message: Message) {
        for call in message.tool_calls() {
            self.calls.insert(call.id.clone(), call.name.clone());
        }
        self.history.messages.push(message);
    }

    /// Lists the part at `path` as omitted, with the reason.
    pub fn omit(&mut self, path: impl fmt::Display, reason: impl fmt::Display) {
        self.history.omitted.push(Omission { path: path.to_string(), reason: reason.to_string() });
    }

    /// Marks the call with the id `id` as omitted.
    pub fn omit_call(&mut self, id: String) {
        self.omitted_calls.insert(id);
    }

    /// Returns `true` if the call with the id `id` was omitted.
    pub fn has_omitted_call(&self, id: &str) -> bool {
        self.omitted_calls.contains(id)
    }

    /// Lists the fields of `object` that are not in `known` as omitted. A field of an inner object
    /// is known by its path, such as `image_url/url`. Null and empty lists are ignored.
    pub fn omit_unknown_fields(&mut self, path: &str, object: &Value, known: &[&str]) {
        for (key, value) in object.as_object().into_iter().flatten() {
            let is_empty = value.is_null() || value.as_array().is_some_and(Vec::is_empty);
            if is_empty || known.contains(&key.as_str()) {
                continue;
            }
            let path = format!("{path}/{key}");
            let inner = known.iter().filter_map(|known| known.strip_prefix(key)?.strip_prefix('/'));
            let inner: Vec<_> = inner.collect();
            if inner.is_empty() {
                self.omit(path, "the field is not supported");
            } else {
                self.omit_unknown_fields(&path, value, &inner);
            }
        }
    }

    /// Adds the result of the call with the id `id`. The result belongs to the tool `name`, or to
    /// the tool of the call if `name` is `None`.
    pub fn push_result(&mut self, id: &str, name: Option<&str>, content: Vec<Content>, is_error: bool) {
        let name = name.or_else(|| self.calls.get(id).map(String::as_str)).unwrap_or_default().to_owned();
        let outcome = if is_error {
            let message = content.iter().map(Content::as_text).collect::<Vec<_>>().join("\n");
            Outcome::Failed(Failure::new(FailureKind::Failed, message))
        } else {
            Outcome::Done(ToolOutput { content, ..ToolOutput::default() })
        };
        self.push(Message::tool(ToolResult {
            call_id: id.to_owned(),
            name,
            outcome,
            warnings: Vec::new(),
            repairs: Vec::new(),
            started_at: Timestamp::default(),
            duration: Duration::ZERO,
        }));
    }
}

/// Returns the list in `json`: `json` itself, or its member `key`.
///
/// # Errors
///
/// Fails if neither is a list.
pub fn list_in<'a>(json: &'a Value, key: &str) -> Result<&'a [Value], HistoryError> {
    match json.as_array().or_else(|| json.get(key)?.as_array()) {
        Some(list) => Ok(list),
        None => Err(HistoryError::new(key, "expected a list of messages")),
    }
}

/// Returns the string field `key` of `value`.
pub fn text_of<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}

/// Returns the required string `key` of `value`, which is at `path`.
///
/// # Errors
///
/// Fails if the field is missing or not a string.
pub fn required_text<'a>(value: &'a Value, key: &str, path: &str) -> Result<&'a str, HistoryError> {
    match text_of(value, key) {
        Some(text) => Ok(text),
        None => Err(HistoryError::new(path, format_args!("the string `{key}` is missing"))),
    }
}
