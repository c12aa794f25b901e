//! Replaces placeholders with the results of queued calls.

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

/// Maximum number of bytes that are inserted into one text or value. Without this limit, a text
/// that repeats a placeholder could grow without bound.
pub(super) const INSERTED: usize = 1 << 20;

/// Maximum nesting depth: a result can contain placeholders of other results.
pub(super) const DEPTH: usize = 8;

/// Replaces the placeholders in one message or text.
///
/// Each resolved result is memoized per nesting depth, so the work is linear in the size of the
/// results.
pub(super) struct PlaceholderResolver<'r> {
    results: &'r QueuedResults,
    /// Number of bytes that can still be inserted.
    room: usize,
    texts: HashMap<(&'r str, usize), String>,
    /// Resolved values, with their sizes as JSON text in bytes.
    values: HashMap<(&'r str, usize), (Value, usize)>,
    /// Set if a placeholder is unresolved: it has no result yet, or its result was omitted. The
    /// text may change when more results arrive.
    is_open: bool,
}

impl<'r> PlaceholderResolver<'r> {
    pub(super) fn new(results: &'r QueuedResults, room: usize) -> Self {
        Self { results, room, texts: HashMap::new(), values: HashMap::new(), is_open: false }
    }

    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Replaces the placeholders in a text. Returns `None` if no placeholder was replaced.
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
        let memoized = self.texts.remove(&(id, depth));
        let text = memoized.unwrap_or_else(|| {
            let text = queued.text();
            self.text(&text, depth).unwrap_or_else(|| text.into_owned())
        });
        let inserted = if self.reserve(text.len()) { text.clone() } else { omitted_text(queued) };
        self.texts.insert((id, depth), text);
        inserted
    }

    /// Reserves `bytes` of the remaining room. Returns `false` if there is not enough room.
    fn reserve(&mut self, bytes: usize) -> bool {
        let left = self.room.checked_sub(bytes);
        self.is_open |= left.is_none();
        self.room = left.unwrap_or(self.room);
        left.is_some()
    }

    /// Replaces the placeholders in a JSON value. Returns `false` if no placeholder was replaced. A
    /// string that consists of one placeholder becomes the JSON value of the result.
    pub(super) fn value(&mut self, value: &mut Value, depth: usize) -> bool {
        match value {
            Value::String(text) => match self.results.find(text) {
                Some((id, queued)) => match depth.checked_sub(1) {
                    Some(depth) => {
                        *value = self.placeholder_value(id, queued, depth);
                        true
                    }
                    None => {
                        self.is_open = true;
                        false
                    }
                },
                None => self.text(text, depth).map(|filled| *text = filled).is_some(),
            },
            // `any` would stop at the first replaced element.
            Value::Array(values) => {
                values.iter_mut().filter_map(|it| self.value(it, depth).then_some(())).count() > 0
            }
            Value::Object(map) => {
                map.values_mut().filter_map(|it| self.value(it, depth).then_some(())).count() > 0
            }
            _ => false,
        }
    }

    fn placeholder_value(&mut self, id: &'r str, queued: &'r Queued, depth: usize) -> Value {
        let memoized = self.values.remove(&(id, depth));
        let (value, bytes) = memoized.unwrap_or_else(|| {
            let mut value = queued.value();
            self.value(&mut value, depth);
            let bytes = value.to_string().len();
            (value, bytes)
        });
        let inserted = if self.reserve(bytes) { value.clone() } else { omitted_text(queued).into() };
        self.values.insert((id, depth), (value, bytes));
        inserted
    }

    pub(super) fn content(&mut self, content: &[Content]) -> Option<Vec<Content>> {
        if !content.iter().any(content_may_refer) {
            return None;
        }
        let mut filled = content.to_vec();
        let places = filled.iter_mut().filter_map(|part| self.part(part).then_some(())).count();
        (places > 0).then_some(filled)
    }

    pub(super) fn body(&mut self, body: &MessageBody) -> Option<MessageBody> {
        Some(match body {
            MessageBody::System { content } => MessageBody::System { content: self.content(content)? },
            MessageBody::User { content } => MessageBody::User { content: self.content(content)? },
            MessageBody::Assistant(reply) => {
                let content = self.content(&reply.content)?;
                MessageBody::Assistant(AssistantMessage { content, ..reply.clone() })
            }
            MessageBody::Tool(result) => MessageBody::Tool(self.result(result)?.into()),
        })
    }

    fn part(&mut self, part: &mut Content) -> bool {
        match part {
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

    /// Replaces the placeholders in the output of a tool. Structured output is read by programs, so
    /// more bytes may be inserted than into the text for the model.
    fn output(&mut self, output: &ToolOutput) -> Option<ToolOutput> {
        let mut data = PlaceholderResolver::new(self.results, INSERTED);
        let structured = output.structured.as_ref().and_then(|value| data.filled(value));
        self.is_open |= data.is_open;
        let is_json_text = |value: &Value| ToolOutput::structured(value.clone()).content == output.content;
        // If the text is the JSON of the structured output, it is generated again. An insertion
        // into the text could make the JSON invalid.
        let json_text = structured.as_ref().filter(|_| output.structured.as_ref().is_some_and(is_json_text));
        let json_text = json_text.map(|filled| ToolOutput::structured(filled.clone()).content);
        let max_bytes = bytes(&output.content).saturating_add(self.room);
        let content = json_text.filter(|it| bytes(it) <= max_bytes).or_else(|| self.content(&output.content));
        (content.is_some() || structured.is_some()).then(|| ToolOutput {
            content: content.unwrap_or_else(|| output.content.clone()),
            structured: structured.or_else(|| output.structured.clone()),
            ..output.clone()
        })
    }

    /// Replaces the placeholders in a copy of a value. Returns `None` if no placeholder was
    /// replaced.
    pub(super) fn filled(&mut self, value: &Value) -> Option<Value> {
        if !may_refer(value) {
            return None;
        }
        let mut filled = value.clone();
        self.value(&mut filled, DEPTH).then_some(filled)
    }
}

/// Returns the text that is inserted in place of a result that is too long.
fn omitted_text(queued: &Queued) -> String {
    let why = "left out: there are too many results in one text";
    match queued.stored() {
        Some(handle) => format!("[{why}; the whole result is stored as {handle:?}]"),
        None => format!("[{why}]"),
    }
}

fn bytes(content: &[Content]) -> usize {
    content.iter().map(|part| part.as_text().len()).sum()
}

/// Returns `true` if a part of a message may contain a placeholder. Other parts are not copied.
fn content_may_refer(part: &Content) -> bool {
    match part {
        Content::Text { text } | Content::Resource { body: ResourceBody::Text(text), .. } => {
            text.contains(PREFIX)
        }
        Content::Json { value } => may_refer(value),
        _ => false,
    }
}

fn may_refer(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains(PREFIX),
        Value::Array(values) => values.iter().any(may_refer),
        Value::Object(map) => map.values().any(may_refer),
        _ => false,
    }
}
