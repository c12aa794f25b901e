//! Results of queued calls, by placeholder.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use haft_core::{Message, ToolCall, ToolOutput, ToolResult, Transcript, limits, message::MessageBody};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::placeholder_resolver::{DEPTH, INSERTED, PlaceholderResolver};
use crate::run::{call_results, call_results_note};

/// The prefix of a placeholder. Templates, JSON, HTML and URLs do not escape letters, digits and
/// `_`.
pub(super) const PREFIX: &str = "pending_";

/// The length of a placeholder in bytes.
pub(super) const LENGTH: usize = PREFIX.len() + 32;

/// Results of queued calls, by placeholder.
///
/// They come from a [queue](super::PendingQueue::results), or from the
/// [messages](super::PendingQueue::note) of a conversation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct QueuedResults(BTreeMap<String, Queued>);

/// The outcome of a queued call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Queued {
    /// The result.
    Executed(Arc<ToolResult>),
    /// The call was not executed, or has no result yet.
    Unexecuted {
        /// The name of the tool.
        name: String,
    },
}

impl QueuedResults {
    /// Reads the results that a conversation records.
    pub fn of(transcript: &Transcript) -> Self {
        let mut results = Self::default();
        results.read(transcript.messages());
        results
    }

    /// Reads the results that these messages record.
    pub(super) fn read(&mut self, messages: &[Arc<Message>]) -> NewResults {
        let notes = messages.iter().filter_map(|message| call_results(message));
        let recorded = notes.filter_map(|note| Self::deserialize(note).ok()).flat_map(|note| note.0);
        let mut new = NewResults::None;
        for (placeholder, queued) in recorded {
            let is_changed = self.0.get(&placeholder).is_some_and(|known| *known != queued);
            new = new.max(if is_changed { NewResults::Changed } else { NewResults::Added });
            self.0.insert(placeholder, queued);
        }
        new
    }

    /// The outcome of a call, with its placeholder.
    pub(super) fn find(&self, placeholder: &str) -> Option<(&str, &Queued)> {
        self.0.get_key_value(placeholder).map(|(placeholder, queued)| (placeholder.as_str(), queued))
    }

    /// The outcome of the call with this placeholder.
    pub fn get(&self, placeholder: &str) -> Option<&Queued> {
        self.0.get(placeholder)
    }

    /// The placeholders with the outcomes of their calls.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Queued)> {
        self.0.iter().map(|(placeholder, queued)| (placeholder.as_str(), queued))
    }

    /// Returns `true` if there are no calls.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn extend(&mut self, results: impl IntoIterator<Item = Arc<ToolResult>>) {
        let results = results.into_iter().map(|it| (it.call_id.clone(), Queued::Executed(it)));
        self.0.extend(results);
    }

    pub(super) fn note_unexecuted<'a>(&mut self, calls: impl IntoIterator<Item = &'a ToolCall>) {
        let calls = calls.into_iter();
        self.0.extend(calls.map(|call| (call.id.clone(), Queued::Unexecuted { name: call.name.clone() })));
    }

    /// Returns the message with these results for a conversation.
    pub(crate) fn note(&self) -> Option<Message> {
        let lines: Vec<_> = self.iter().map(|(id, queued)| format!("{id}: {}", queued.text())).collect();
        let value = serde_json::to_value(self).ok()?;
        (!self.is_empty())
            .then(|| call_results_note(format!("Results of calls:\n{}", lines.join("\n")), value))
    }

    /// Returns the tool of a failed or unexecuted call.
    pub(super) fn failed(&self, placeholder: &str) -> Option<&str> {
        match self.get(placeholder)? {
            Queued::Executed(result) if result.is_success() => None,
            Queued::Executed(result) => Some(&result.name),
            Queued::Unexecuted { name } => Some(name),
        }
    }

    /// Replaces the placeholders in a text with outcomes. At most 1 MiB is inserted.
    pub fn in_text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        PlaceholderResolver::new(self, INSERTED).text(text, DEPTH).map_or(Cow::Borrowed(text), Cow::Owned)
    }

    /// Replaces the placeholders in a copy of a value with outcomes. Returns `None` if it has none.
    /// A string that is a placeholder becomes the value of the result.
    pub fn in_value(&self, value: &Value) -> Option<Value> {
        PlaceholderResolver::new(self, INSERTED).filled(value)
    }

    /// Replaces the placeholders in a copy of a message with outcomes. Returns `None` if it has
    /// none. Tool calls are unchanged.
    pub fn in_message(&self, message: &Message) -> Option<Message> {
        self.message(message).0
    }

    /// Like [`in_message`](Self::in_message). The flag is set if later results may change the
    /// message.
    pub(super) fn message(&self, message: &Message) -> (Option<Message>, bool) {
        let room = if let MessageBody::Tool(_) = message.body() { limits::RESULT_BYTES } else { INSERTED };
        let mut resolver = PlaceholderResolver::new(self, room);
        let body = resolver.body(message.body());
        let resolved = body.map(|body| {
            let copy = Message::new(body).with_metadata(message.metadata().clone());
            match message.created_at() {
                Some(time) => copy.at(time),
                None => copy,
            }
        });
        (resolved, resolver.is_open())
    }

    /// Replaces the placeholders in a copy of a result with outcomes. Returns `None` if it has
    /// none. At most [`RESULT_BYTES`](haft_core::limits::RESULT_BYTES) are inserted into the text
    /// for the model.
    pub fn in_result(&self, result: &ToolResult) -> Option<ToolResult> {
        PlaceholderResolver::new(self, limits::RESULT_BYTES).result(result)
    }
}

/// The effect of reading messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum NewResults {
    /// No results were read.
    None,
    /// Results of other calls were added.
    Added,
    /// The result of a known call changed.
    Changed,
}

impl Queued {
    /// Returns the text that replaces the placeholder.
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Executed(result) if result.is_success() => result.model_text(),
            Self::Executed(result) => format!("[{} failed: {}]", result.name, result.model_text()).into(),
            Self::Unexecuted { name } => format!("[{name} is not executed]").into(),
        }
    }

    /// The handle of the full result, if it was truncated.
    pub(super) fn stored(&self) -> Option<&str> {
        match self {
            Self::Executed(result) => result.output()?.stored.as_deref(),
            Self::Unexecuted { .. } => None,
        }
    }

    pub(super) fn value(&self) -> Value {
        match self {
            Self::Executed(result) => result.output().map(ToolOutput::to_value),
            Self::Unexecuted { .. } => None,
        }
        .unwrap_or_else(|| Value::String(self.text().into_owned()))
    }
}

/// The placeholders in a text, with or without a call.
pub(super) fn placeholders_in(text: &str) -> Vec<String> {
    let starts = text.match_indices(PREFIX).filter_map(|(at, _)| placeholder_at(text.get(at..)?));
    starts.map(str::to_owned).collect()
}

pub(super) fn contains_placeholder(text: &str) -> bool {
    !placeholders_in(text).is_empty()
}

pub(super) fn is_placeholder(id: &str) -> bool {
    placeholder_at(id) == Some(id)
}

/// The placeholder at the start of a text.
pub(super) fn placeholder_at(text: &str) -> Option<&str> {
    let placeholder = text.get(..LENGTH)?;
    let is_placeholder = placeholder.bytes().skip(PREFIX.len()).all(|byte| byte.is_ascii_hexdigit());
    is_placeholder.then_some(placeholder)
}
