//! Puts results into their places.

use std::collections::HashMap;

use haft_core::{
    ToolOutput, ToolResult,
    call::Outcome,
    content::{Content, ResourceBody},
    message::{AssistantMessage, MessageBody},
};
use serde_json::Value;

use super::{
    Queued, QueuedResults,
    results::{LENGTH, PREFIX, placeholder_at},
};

/// How many bytes are put into one text or data: a placeholder may stand in it any number of times.
pub(super) const INSERTED: usize = 1 << 20;

/// How deep results within results are put into their places.
pub(super) const DEPTH: usize = 8;

/// Puts results into their places, in one message or text. What a result is with those within it is found out once for each
/// depth, so that the work is bounded by the size of the results, however often they stand in one another.
pub(super) struct Filling<'r> {
    results: &'r QueuedResults,
    /// How much may still be put in, in bytes.
    room: usize,
    texts: HashMap<(&'r str, usize), String>,
    /// With their sizes as text.
    values: HashMap<(&'r str, usize), (Value, usize)>,
    /// Whether a place has no result, or one that was left out: with other results, what is filled may be another.
    is_open: bool,
}

impl<'r> Filling<'r> {
    pub(super) fn new(results: &'r QueuedResults, room: usize) -> Self {
        Self { results, room, texts: HashMap::new(), values: HashMap::new(), is_open: false }
    }

    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// The text with the results in their places, if there are such places.
    pub(super) fn text(&mut self, text: &str, depth: usize) -> Option<String> {
        let mut places = text.match_indices(PREFIX).peekable();
        places.peek()?;
        let Some(depth) = depth.checked_sub(1) else {
            self.is_open = true;
            return None;
        };
        let (mut filled, mut end) = (String::new(), 0);
        for (at, _) in places {
            let Some(place) = text.get(at..).and_then(placeholder_at) else { continue };
            let Some((id, queued)) = self.results.find(place) else {
                self.is_open = true;
                continue;
            };
            filled += text.get(end..at).unwrap_or_default();
            filled += &self.inserted(id, queued, depth);
            end = at + LENGTH;
        }
        filled += text.get(end..).unwrap_or_default();
        (end > 0).then_some(filled)
    }

    fn inserted(&mut self, id: &'r str, queued: &'r Queued, depth: usize) -> String {
        let known = self.texts.remove(&(id, depth));
        let text = known.unwrap_or_else(|| {
            let text = queued.text();
            self.text(&text, depth).unwrap_or_else(|| text.into_owned())
        });
        let inserted = if self.takes(text.len()) { text.clone() } else { left_out(queued) };
        self.texts.insert((id, depth), text);
        inserted
    }

    /// Whether so much can still be put in, which then is.
    fn takes(&mut self, bytes: usize) -> bool {
        let left = self.room.checked_sub(bytes);
        self.is_open |= left.is_none();
        self.room = left.unwrap_or(self.room);
        left.is_some()
    }

    /// Puts results into their places in data; whether there were any. A text that is nothing but a placeholder becomes the
    /// data of its result.
    pub(super) fn value(&mut self, value: &mut Value, depth: usize) -> bool {
        match value {
            Value::String(text) => match self.results.find(text) {
                Some((id, queued)) => match depth.checked_sub(1) {
                    Some(depth) => {
                        *value = self.whole(id, queued, depth);
                        true
                    }
                    None => {
                        self.is_open = true;
                        false
                    }
                },
                None => self.text(text, depth).map(|filled| *text = filled).is_some(),
            },
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

    fn whole(&mut self, id: &'r str, queued: &'r Queued, depth: usize) -> Value {
        let known = self.values.remove(&(id, depth));
        let (value, bytes) = known.unwrap_or_else(|| {
            let mut value = queued.value();
            self.value(&mut value, depth);
            let bytes = value.to_string().len();
            (value, bytes)
        });
        let inserted = if self.takes(bytes) { value.clone() } else { left_out(queued).into() };
        self.values.insert((id, depth), (value, bytes));
        inserted
    }

    pub(super) fn content(&mut self, content: &[Content]) -> Option<Vec<Content>> {
        if !content.iter().any(has_place) {
            return None;
        }
        let mut filled = content.to_vec();
        let places = filled.iter_mut().filter_map(|piece| self.piece(piece).then_some(())).count();
        (places > 0).then_some(filled)
    }

    pub(super) fn body(&mut self, body: &MessageBody) -> Option<MessageBody> {
        Some(match body {
            MessageBody::System { content } => MessageBody::System { content: self.content(content)? },
            MessageBody::User { content } => MessageBody::User { content: self.content(content)? },
            MessageBody::Assistant(said) => {
                let content = self.content(&said.content)?;
                MessageBody::Assistant(AssistantMessage { content, ..said.clone() })
            }
            MessageBody::Tool(result) => MessageBody::Tool(self.result(result)?.into()),
        })
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

    pub(super) fn result(&mut self, result: &ToolResult) -> Option<ToolResult> {
        let outcome = match &result.outcome {
            Outcome::Done(output) => Outcome::Done(self.output(output)?),
            Outcome::Failed(failure) => {
                let message = self.text(&failure.message, DEPTH)?;
                Outcome::Failed(haft_core::call::Failure { message, ..failure.clone() })
            }
        };
        Some(ToolResult { outcome, ..result.clone() })
    }

    /// What is data is for programs, and has more room than what a model reads.
    fn output(&mut self, output: &ToolOutput) -> Option<ToolOutput> {
        let mut data = Filling::new(self.results, INSERTED);
        let structured = output.structured.as_ref().and_then(|value| data.filled(value));
        self.is_open |= data.is_open;
        let is_written = |value: &Value| ToolOutput::structured(value.clone()).content == output.content;
        // Data as text stays data: a result between quotation marks need not be.
        let written = structured.as_ref().filter(|_| output.structured.as_ref().is_some_and(is_written));
        let written = written.map(|filled| ToolOutput::structured(filled.clone()).content);
        let most = bytes(&output.content).saturating_add(self.room);
        let content = written.filter(|it| bytes(it) <= most).or_else(|| self.content(&output.content));
        (content.is_some() || structured.is_some()).then(|| ToolOutput {
            content: content.unwrap_or_else(|| output.content.clone()),
            structured: structured.or_else(|| output.structured.clone()),
            ..output.clone()
        })
    }

    /// The data with the results in their places, if there are such places.
    pub(super) fn filled(&mut self, value: &Value) -> Option<Value> {
        if !has_place_in(value) {
            return None;
        }
        let mut filled = value.clone();
        self.value(&mut filled, DEPTH).then_some(filled)
    }
}

/// What stands in the place of a result that is too long for it.
fn left_out(queued: &Queued) -> String {
    let why = "left out: there are too many results in one text";
    match queued.stored() {
        Some(handle) => format!("[{why}; the whole result is stored as {handle:?}]"),
        None => format!("[{why}]"),
    }
}

fn bytes(content: &[Content]) -> usize {
    content.iter().map(|piece| piece.as_text().len()).sum()
}

/// Whether there may be a placeholder in it: most of what is said has none, and is not copied.
fn has_place(piece: &Content) -> bool {
    match piece {
        Content::Text { text } | Content::Resource { body: ResourceBody::Text(text), .. } => {
            text.contains(PREFIX)
        }
        Content::Json { value } => has_place_in(value),
        _ => false,
    }
}

fn has_place_in(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains(PREFIX),
        Value::Array(values) => values.iter().any(has_place_in),
        Value::Object(map) => map.values().any(has_place_in),
        _ => false,
    }
}
