//! What came of calls from synchronous code, and where it belongs.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use haft_core::{
    AssistantMessage, Content, Message, MessageBody, Outcome, ResourceBody, ToolCall, ToolOutput, ToolResult,
    Transcript, Value,
};
use serde::{Deserialize, Serialize};

use crate::run::{queue_note, queued_in};

/// How a placeholder begins. Letters, digits and `_` come through templates, JSON, HTML and URLs as they are.
pub(super) const PREFIX: &str = "pending_";

/// How long a placeholder is.
const LENGTH: usize = PREFIX.len() + 32;

/// How deep results within results are put into their places.
const DEPTH: usize = 8;

/// How many bytes are put into one text: a placeholder may stand in it any number of times.
const INSERTED: usize = 1 << 20;

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
    Executed(Box<ToolResult>),
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

    /// Takes the results that these messages tell; whether there were any.
    pub(crate) fn learn(&mut self, messages: &[Arc<Message>]) -> bool {
        let known = messages.iter().filter_map(|message| queued_in(message));
        let known: Vec<Self> = known.filter_map(|note| Self::deserialize(note).ok()).collect();
        let is_news = !known.is_empty();
        self.0.extend(known.into_iter().flat_map(|known| known.0));
        is_news
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

    pub(crate) fn extend(&mut self, results: impl IntoIterator<Item = ToolResult>) {
        let results = results.into_iter().map(|it| (it.call_id.clone(), Queued::Executed(Box::new(it))));
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

    /// A text with what came of the calls in the places of their placeholders.
    pub fn in_text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        Filling::new(self).text(text, DEPTH).map_or(Cow::Borrowed(text), Cow::Owned)
    }

    /// The same for data, if there is a placeholder in it: a string that is nothing else becomes the value of the result.
    pub fn in_value(&self, value: &Value) -> Option<Value> {
        let mut filled = value.clone();
        Filling::new(self).value(&mut filled, DEPTH).then_some(filled)
    }

    /// The same for a message, if there is a placeholder in what it says or in a result. Its calls stay as they were made.
    pub fn in_message(&self, message: &Message) -> Option<Message> {
        let mut filling = Filling::new(self);
        let body = match message.body() {
            MessageBody::System { content } => MessageBody::System { content: filling.content(content)? },
            MessageBody::User { content } => MessageBody::User { content: filling.content(content)? },
            MessageBody::Assistant(said) => {
                let content = filling.content(&said.content)?;
                MessageBody::Assistant(AssistantMessage { content, ..said.clone() })
            }
            MessageBody::Tool(result) => MessageBody::Tool(Box::new(filling.result(result)?)),
        };
        let shown = Message::new(body).with_metadata(message.metadata().clone());
        Some(match message.created_at() {
            Some(time) => shown.at(time),
            None => shown,
        })
    }

    /// The same for the result of a call.
    pub fn in_result(&self, result: &ToolResult) -> Option<ToolResult> {
        Filling::new(self).result(result)
    }
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

    fn value(&self) -> Value {
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

/// The placeholder that a text begins with.
fn placeholder_at(text: &str) -> Option<&str> {
    let placeholder = text.get(..LENGTH)?;
    let is_one = placeholder.bytes().skip(PREFIX.len()).all(|byte| byte.is_ascii_hexdigit());
    is_one.then_some(placeholder)
}

/// Puts results into their places, in one message or text.
struct Filling<'r> {
    results: &'r QueuedResults,
    /// How much may still be put in, in bytes.
    room: usize,
}

impl<'r> Filling<'r> {
    fn new(results: &'r QueuedResults) -> Self {
        Self { results, room: INSERTED }
    }

    /// The text with the results in their places, if there are such places.
    fn text(&mut self, text: &str, depth: usize) -> Option<String> {
        let depth = depth.checked_sub(1)?;
        let (mut filled, mut rest) = (String::new(), text);
        let mut is_filled = false;
        while let Some(at) = rest.find(PREFIX) {
            let (before, place) = rest.split_at(at);
            filled += before;
            let found = placeholder_at(place).and_then(|id| self.results.get(id));
            let end = match found {
                Some(queued) => {
                    filled += &self.inserted(queued, depth);
                    is_filled = true;
                    LENGTH
                }
                None => {
                    filled += PREFIX;
                    PREFIX.len()
                }
            };
            rest = place.get(end..).unwrap_or_default();
        }
        filled += rest;
        is_filled.then_some(filled)
    }

    fn inserted(&mut self, queued: &Queued, depth: usize) -> String {
        let text = queued.text();
        let text = self.text(&text, depth).unwrap_or_else(|| text.into_owned());
        match self.room.checked_sub(text.len()) {
            Some(left) => {
                self.room = left;
                text
            }
            None => "[left out: there are too many results in one text]".to_owned(),
        }
    }

    fn value(&mut self, value: &mut Value, depth: usize) -> bool {
        match value {
            Value::String(text) => {
                let whole = self.results.get(text).map(Queued::value).zip(depth.checked_sub(1));
                if let Some((mut whole, depth)) = whole {
                    self.value(&mut whole, depth);
                    let Some(left) = self.room.checked_sub(whole.to_string().len()) else { return false };
                    self.room = left;
                    *value = whole;
                    return true;
                }
                let filled = self.text(text, depth);
                filled.map(|filled| *text = filled).is_some()
            }
            // Not `any`, which would stop at the first.
            Value::Array(values) => {
                values.iter_mut().filter_map(|it| self.value(it, depth).then_some(())).count() > 0
            }
            Value::Object(map) => {
                map.values_mut().filter_map(|it| self.value(it, depth).then_some(())).count() > 0
            }
            _ => false,
        }
    }

    fn content(&mut self, content: &[Content]) -> Option<Vec<Content>> {
        let mut filled = content.to_vec();
        let places = filled.iter_mut().filter_map(|piece| self.piece(piece).then_some(())).count();
        (places > 0).then_some(filled)
    }

    fn piece(&mut self, piece: &mut Content) -> bool {
        match piece {
            Content::Text { text } | Content::Resource { body: ResourceBody::Text(text), .. } => {
                self.text(text, DEPTH).map(|filled| *text = filled).is_some()
            }
            Content::Json { value } => self.value(value, DEPTH),
            _ => false,
        }
    }

    fn result(&mut self, result: &ToolResult) -> Option<ToolResult> {
        let outcome = match &result.outcome {
            Outcome::Done(output) => Outcome::Done(self.output(output)?),
            Outcome::Failed(failure) => {
                let message = self.text(&failure.message, DEPTH)?;
                Outcome::Failed(haft_core::Failure { message, ..failure.clone() })
            }
        };
        Some(ToolResult { outcome, ..result.clone() })
    }

    fn output(&mut self, output: &ToolOutput) -> Option<ToolOutput> {
        let mut structured = output.structured.clone();
        let is_filled = structured.as_mut().is_some_and(|value| self.value(value, DEPTH));
        let is_written = |value: &Value| ToolOutput::structured(value.clone()).content == output.content;
        let content = match &structured {
            // Data as text stays data: a result between quotation marks need not be.
            Some(filled) if is_filled && output.structured.as_ref().is_some_and(is_written) => {
                Some(ToolOutput::structured(filled.clone()).content)
            }
            _ => self.content(&output.content),
        };
        (content.is_some() || is_filled).then(|| ToolOutput {
            content: content.unwrap_or_else(|| output.content.clone()),
            structured,
            ..output.clone()
        })
    }
}
