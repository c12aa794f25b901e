//! Message histories in the JSON of OpenAI's and Anthropic's APIs, read into messages and written
//! back.
//!
//! Use it to continue a conversation that another program or framework has stored, or to export a
//! conversation. For requests, use [`encode_messages`](crate::encode_messages),
//! [`responses::encode_input`](crate::responses::encode_input) or a model of this crate.
//!
//! | format | read | write |
//! |---|---|---|
//! | Chat Completions: `messages` | [`from_chat_completions`] | [`to_chat_completions`] |
//! | Responses: `input`, `output` | [`from_responses`] | [`to_responses`] |
//! | Anthropic's Messages: `system`, `messages` | [`from_anthropic`] | [`to_anthropic`] |
//!
//! Reading is lenient: fields may be missing, content may be a string or a list of parts. Signed or
//! encrypted reasoning and unknown parts of an assistant message are kept as
//! [`ProviderData`](haft_core::message::ProviderData). Only the format that they came from writes
//! them back. All other unknown parts, and unknown fields of known parts, are listed in
//! [`History::omitted`]. Metadata of a message or item, such as its id, status, model and usage, is
//! not part of the history.
//!
//! Reading a written history gives equal messages, as far as the format can express them. Tool
//! results contain no time, so they start at the Unix epoch. A link with the media type `image/*`
//! represents an image by its URL. A request sends it as an image too, if the model reads images.
//!
//! # Examples
//!
//! ```
//! use haft_openai::history;
//! use serde_json::json;
//!
//! let stored = json!([
//!     {"role": "system", "content": "Be brief."},
//!     {"role": "user", "content": "What is 17 plus 25?"},
//!     {"role": "assistant", "content": null, "tool_calls": [
//!         {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": "{\"x\":17,\"y\":25}"}},
//!     ]},
//!     {"role": "tool", "tool_call_id": "call_1", "content": "42"},
//!     {"role": "assistant", "content": "42."},
//! ]);
//! let history = history::from_chat_completions(&stored)?;
//! assert!(history.omitted.is_empty());
//! let transcript = history.into_transcript();
//! assert_eq!(transcript.len(), 5);
//!
//! let claude = history::to_anthropic(transcript.messages());
//! assert_eq!(claude["system"], "Be brief.");
//! assert_eq!(claude["messages"][1]["content"][0]["input"], json!({"x": 17, "y": 25}));
//! # Ok::<(), haft_openai::history::HistoryError>(())
//! ```

mod anthropic;
mod chat_completions;
mod content;
mod responses;

use std::{
    collections::{HashMap, HashSet},
    fmt,
    time::Duration,
};

use haft_core::{
    Message, Timestamp, ToolOutput, ToolResult, Transcript,
    call::{Failure, FailureKind, Outcome},
    content::Content,
};
use serde_json::Value;

pub use anthropic::{from_anthropic, to_anthropic};
pub use chat_completions::{from_chat_completions, to_chat_completions};
pub use responses::{from_responses, to_responses};

/// The metadata key of the `name` of a Chat Completions message.
pub const NAME_KEY: &str = "openai/name";

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
    /// [`RunInput::with_history`](haft_core::RunInput::with_history).
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

fn error<T>(path: impl fmt::Display, problem: impl fmt::Display) -> Result<T, HistoryError> {
    Err(HistoryError { path: path.to_string(), problem: problem.to_string() })
}

/// The state of the reader of one history.
#[derive(Default)]
struct Reader {
    history: History,
    /// The tool names of the calls read so far, by call id.
    calls: HashMap<String, String>,
    /// The ids of the omitted calls.
    omitted_calls: HashSet<String>,
}

impl Reader {
    fn push(&mut self, message: Message) {
        for call in message.tool_calls() {
            self.calls.insert(call.id.clone(), call.name.clone());
        }
        self.history.messages.push(message);
    }

    fn omit(&mut self, path: impl fmt::Display, reason: impl fmt::Display) {
        self.history.omitted.push(Omission { path: path.to_string(), reason: reason.to_string() });
    }

    /// Lists the fields of `object` that are not in `known` as omitted. A field of an inner object
    /// is known by its path, such as `image_url/url`. Null and empty lists are ignored.
    fn omit_unknown_fields(&mut self, path: &str, object: &Value, known: &[&str]) {
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
    fn push_result(&mut self, id: &str, name: Option<&str>, content: Vec<Content>, is_error: bool) {
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

/// Returns the list in `json`: `json` itself, or its member `key`. `path` is the path of the list.
fn list_in<'a>(json: &'a Value, key: &str) -> Result<&'a [Value], HistoryError> {
    match json.as_array().or_else(|| json.get(key)?.as_array()) {
        Some(list) => Ok(list),
        None => error(key, "expected a list of messages"),
    }
}

fn text_of<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}

/// Returns the required string `key` of `value`, which is at `path`.
fn required<'a>(value: &'a Value, key: &str, path: &str) -> Result<&'a str, HistoryError> {
    match text_of(value, key) {
        Some(text) => Ok(text),
        None => error(path, format_args!("the string `{key}` is missing")),
    }
}
