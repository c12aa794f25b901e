//! The results of queued tool calls. The key of each result is its placeholder.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use haft_core::{Message, ToolCall, ToolOutput, ToolResult, limits, message::MessageBody};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::placeholder_resolver::{MAX_INSERTED_BYTES, MAX_INSERTION_DEPTH, PlaceholderResolver};

/// The prefix of a placeholder. It consists of letters and `_`, which templates, JSON, HTML and
/// URLs do not escape.
pub(super) const PLACEHOLDER_PREFIX: &str = "pending_";

/// The length of a placeholder in bytes: the prefix and 32 hexadecimal digits.
pub(super) const PLACEHOLDER_LEN: usize = PLACEHOLDER_PREFIX.len() + 32;

/// The results of queued tool calls, by placeholder.
///
/// [`PendingQueue::results`](super::PendingQueue::results) returns them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct QueuedResults(BTreeMap<String, QueuedOutcome>);

/// The outcome of a queued call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum QueuedOutcome {
    /// The call has a result. The result may be a failure, for example because the call was
    /// cancelled before its execution.
    Executed(Arc<ToolResult>),
    /// The call has no result: it was not started, or it is not finished.
    Unexecuted {
        /// The name of the called tool.
        name: String,
    },
}

impl QueuedResults {
    /// Returns the placeholder and the outcome of its call, or `None` if the call is unknown. The
    /// returned placeholder is borrowed from `self`, and not from the argument.
    pub(super) fn find(&self, placeholder: &str) -> Option<(&str, &QueuedOutcome)> {
        self.0.get_key_value(placeholder).map(|(placeholder, queued)| (placeholder.as_str(), queued))
    }

    /// Returns the outcome of the call with this placeholder, or `None` if the call is unknown.
    pub fn get(&self, placeholder: &str) -> Option<&QueuedOutcome> {
        self.0.get(placeholder)
    }

    /// Returns an iterator over the placeholders and the outcomes of their calls.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &QueuedOutcome)> {
        self.0.iter().map(|(placeholder, queued)| (placeholder.as_str(), queued))
    }

    /// Returns `true` if there are no outcomes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn extend(&mut self, results: impl IntoIterator<Item = Arc<ToolResult>>) {
        let results = results.into_iter().map(|it| (it.call_id.clone(), QueuedOutcome::Executed(it)));
        self.0.extend(results);
    }

    pub(super) fn note_unexecuted<'a>(&mut self, calls: impl IntoIterator<Item = &'a ToolCall>) {
        let calls = calls.into_iter();
        self.0.extend(
            calls.map(|call| (call.id.clone(), QueuedOutcome::Unexecuted { name: call.name.clone() })),
        );
    }

    /// Returns the tool name of the call with this placeholder if the call failed or has no result.
    /// Returns `None` if the call succeeded or is unknown.
    pub(super) fn failed_tool(&self, placeholder: &str) -> Option<&str> {
        match self.get(placeholder)? {
            QueuedOutcome::Executed(result) if result.is_success() => None,
            QueuedOutcome::Executed(result) => Some(&result.name),
            QueuedOutcome::Unexecuted { name } => Some(name),
        }
    }

    /// Replaces the placeholders in `text` with the outcomes of their calls. At most 1 MiB of
    /// results is inserted.
    pub fn resolve_text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        PlaceholderResolver::new(self, MAX_INSERTED_BYTES)
            .resolve_text(text, MAX_INSERTION_DEPTH)
            .map_or(Cow::Borrowed(text), Cow::Owned)
    }

    /// Replaces the placeholders in a copy of `value`. Returns `None` if no placeholder was
    /// replaced. A string that consists of one placeholder becomes the JSON value of the result.
    pub fn resolve_value(&self, value: &Value) -> Option<Value> {
        PlaceholderResolver::new(self, MAX_INSERTED_BYTES).resolved_copy(value)
    }

    /// Replaces the placeholders in a copy of `message`. In an assistant message, only the content
    /// is changed, and not the reasoning or the tool calls. Returns `None` if no placeholder was
    /// replaced.
    pub fn resolve_message(&self, message: &Message) -> Option<Message> {
        let is_result = matches!(message.body(), MessageBody::Tool(_));
        let max_bytes = if is_result { limits::RESULT_TEXT_BYTES } else { MAX_INSERTED_BYTES };
        let body = PlaceholderResolver::new(self, max_bytes).resolve_body(message.body())?;
        let copy = Message::new(body).with_metadata(message.metadata().clone());
        Some(match message.created_at() {
            Some(time) => copy.with_created_at(time),
            None => copy,
        })
    }

    /// Replaces the placeholders in a copy of `result`. Returns `None` if no placeholder was
    /// replaced. At most [`RESULT_TEXT_BYTES`](haft_core::limits::RESULT_TEXT_BYTES) are inserted
    /// into the text for the model.
    pub fn resolve_result(&self, result: &ToolResult) -> Option<ToolResult> {
        PlaceholderResolver::new(self, limits::RESULT_TEXT_BYTES).resolve_result(result)
    }

    /// Replaces the placeholders in the output of a tool, with the limits of
    /// [`resolve_result`](Self::resolve_result).
    pub(super) fn resolve_output(&self, output: ToolOutput) -> ToolOutput {
        PlaceholderResolver::new(self, limits::RESULT_TEXT_BYTES).resolve_output(&output).unwrap_or(output)
    }
}

impl QueuedOutcome {
    /// Returns the text that replaces the placeholder of the call. This is the text of the result,
    /// or a note in brackets if the call failed or has no result.
    pub fn replacement_text(&self) -> Cow<'_, str> {
        match self {
            Self::Executed(result) if result.is_success() => result.model_text(),
            Self::Executed(result) => format!("[{} failed: {}]", result.name, result.model_text()).into(),
            Self::Unexecuted { name } => format!("[{name} is not executed]").into(),
        }
    }

    /// Returns the handle of the full result in the result store, or `None` if the result is not
    /// stored there.
    pub(super) fn result_handle(&self) -> Option<&str> {
        match self {
            Self::Executed(result) => result.output()?.result_handle.as_deref(),
            Self::Unexecuted { .. } => None,
        }
    }

    pub(super) fn replacement_value(&self) -> Value {
        match self {
            Self::Executed(result) => result.output().map(ToolOutput::to_value),
            Self::Unexecuted { .. } => None,
        }
        .unwrap_or_else(|| Value::String(self.replacement_text().into_owned()))
    }
}

/// Returns all substrings of `text` with the form of a placeholder, even if they belong to no call.
pub(super) fn placeholders_in(text: &str) -> Vec<String> {
    let starts = text.match_indices(PLACEHOLDER_PREFIX).filter_map(|(at, _)| placeholder_at(text.get(at..)?));
    starts.map(str::to_owned).collect()
}

pub(super) fn contains_placeholder(text: &str) -> bool {
    !placeholders_in(text).is_empty()
}

/// Returns the placeholder at the start of `text`, or `None` if there is none.
pub(super) fn placeholder_at(text: &str) -> Option<&str> {
    let placeholder = text.get(..PLACEHOLDER_LEN)?;
    let is_placeholder =
        placeholder.bytes().skip(PLACEHOLDER_PREFIX.len()).all(|byte| byte.is_ascii_hexdigit());
    is_placeholder.then_some(placeholder)
}
