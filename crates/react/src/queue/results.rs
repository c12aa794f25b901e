//! What came of calls from synchronous code, and where it belongs.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use haft_core::{Message, ToolCall, ToolOutput, ToolResult, Transcript, limits, message::MessageBody};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::filling::{DEPTH, Filling, INSERTED};
use crate::run::{queue_note, queued_in};

/// How a placeholder begins. Letters, digits and `_` come through templates, JSON, HTML and URLs as they are.
pub(super) const PREFIX: &str = "pending_";

/// How long a placeholder is.
pub(super) const LENGTH: usize = PREFIX.len() + 32;

/// What came of the calls of [pending queues](super::PendingQueue), by their placeholders.
///
/// Made of the queue, or of a conversation that was [told](super::PendingQueue::note) of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct QueuedResults(BTreeMap<String, Queued>);

/// What came of one call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Queued {
    /// Its result.
    Executed(Arc<ToolResult>),
    /// It was not executed, or not to its end.
    Unexecuted {
        /// The tool.
        name: String,
    },
}

impl QueuedResults {
    /// The results that a conversation was told of.
    pub fn of(transcript: &Transcript) -> Self {
        let mut results = Self::default();
        results.learn(transcript.messages());
        results
    }

    /// Takes the results that these messages tell.
    pub(crate) fn learn(&mut self, messages: &[Arc<Message>]) -> Learned {
        let told = messages.iter().filter_map(|message| queued_in(message));
        let told = told.filter_map(|note| Self::deserialize(note).ok()).flat_map(|told| told.0);
        let mut learned = Learned::Nothing;
        for (placeholder, queued) in told {
            let is_other = self.0.get(&placeholder).is_some_and(|known| *known != queued);
            learned = learned.max(if is_other { Learned::Others } else { Learned::New });
            self.0.insert(placeholder, queued);
        }
        learned
    }

    /// What came of a call, with its placeholder as it is kept here.
    pub(super) fn find(&self, placeholder: &str) -> Option<(&str, &Queued)> {
        self.0.get_key_value(placeholder).map(|(placeholder, queued)| (placeholder.as_str(), queued))
    }

    /// What came of the call with this placeholder.
    pub fn get(&self, placeholder: &str) -> Option<&Queued> {
        self.0.get(placeholder)
    }

    /// The placeholders with what came of their calls.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Queued)> {
        self.0.iter().map(|(placeholder, queued)| (placeholder.as_str(), queued))
    }

    /// Whether there was no call.
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

    /// The message that tells a conversation of these results.
    pub(crate) fn note(&self) -> Option<Message> {
        let told: Vec<_> = self.iter().map(|(id, queued)| format!("{id}: {}", queued.text())).collect();
        let value = serde_json::to_value(self).ok()?;
        (!self.is_empty()).then(|| queue_note(format!("Results of calls:\n{}", told.join("\n")), value))
    }

    /// The name of the tool whose call failed, or is not executed.
    pub(super) fn failed(&self, placeholder: &str) -> Option<&str> {
        match self.get(placeholder)? {
            Queued::Executed(result) if result.is_success() => None,
            Queued::Executed(result) => Some(&result.name),
            Queued::Unexecuted { name } => Some(name),
        }
    }

    /// A text with what came of the calls in the places of their placeholders: at most 1 MiB of it.
    pub fn in_text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        Filling::new(self, INSERTED).text(text, DEPTH).map_or(Cow::Borrowed(text), Cow::Owned)
    }

    /// The same for data, if there is a placeholder in it: a string that is nothing else becomes the value of the result.
    pub fn in_value(&self, value: &Value) -> Option<Value> {
        Filling::new(self, INSERTED).filled(value)
    }

    /// The same for a message, if there is a placeholder in what it says or in a result. Its calls stay as they were made.
    pub fn in_message(&self, message: &Message) -> Option<Message> {
        self.message(message).0
    }

    /// The same, and whether it may be another when more results are known.
    pub(crate) fn message(&self, message: &Message) -> (Option<Message>, bool) {
        let room = if let MessageBody::Tool(_) = message.body() { limits::RESULT_BYTES } else { INSERTED };
        let mut filling = Filling::new(self, room);
        let body = filling.body(message.body());
        let filled = body.map(|body| {
            let shown = Message::new(body).with_metadata(message.metadata().clone());
            match message.created_at() {
                Some(time) => shown.at(time),
                None => shown,
            }
        });
        (filled, filling.is_open())
    }

    /// The same for the result of a call. What a model reads of it becomes longer by at most
    /// [`RESULT_BYTES`](haft_core::limits::RESULT_BYTES).
    pub fn in_result(&self, result: &ToolResult) -> Option<ToolResult> {
        Filling::new(self, limits::RESULT_BYTES).result(result)
    }
}

/// What messages have told of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Learned {
    /// None.
    Nothing,
    /// Results of calls that were not known before.
    New,
    /// Other results of calls that were.
    Others,
}

impl Queued {
    /// What stands in the place of the placeholder, in a text.
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Executed(result) if result.is_success() => result.model_text(),
            Self::Executed(result) => format!("[{} failed: {}]", result.name, result.model_text()).into(),
            Self::Unexecuted { name } => format!("[{name} is not executed]").into(),
        }
    }

    /// Where the whole of it is, if it was too long.
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

/// The placeholders in a text, whether there are calls for them or not.
pub(super) fn mentioned(text: &str) -> Vec<String> {
    let starts = text.match_indices(PREFIX).filter_map(|(at, _)| placeholder_at(text.get(at..)?));
    starts.map(str::to_owned).collect()
}

pub(super) fn is_mentioned(text: &str) -> bool {
    !mentioned(text).is_empty()
}

pub(crate) fn is_placeholder(id: &str) -> bool {
    placeholder_at(id) == Some(id)
}

/// The placeholder that a text begins with.
pub(super) fn placeholder_at(text: &str) -> Option<&str> {
    let placeholder = text.get(..LENGTH)?;
    let is_one = placeholder.bytes().skip(PREFIX.len()).all(|byte| byte.is_ascii_hexdigit());
    is_one.then_some(placeholder)
}
