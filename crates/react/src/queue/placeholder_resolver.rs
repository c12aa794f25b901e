//! Replacement of placeholders with the results of queued calls.

use std::collections::HashMap;

use haft_core::{
    ToolOutput, ToolResult,
    call::Outcome,
    content::{Content, ResourceBody},
    message::{AssistantMessage, MessageBody},
};
use serde_json::Value;

use super::{
    QueuedOutcome, QueuedResults,
    results::{PLACEHOLDER_LEN, PLACEHOLDER_PREFIX, placeholder_at},
};

/// The maximum total size of the results inserted into one text or JSON value, in bytes. Without
/// this limit, a text that repeats a placeholder could grow without bound.
pub(super) const MAX_INSERTED_BYTES: usize = 1 << 20;

/// The maximum nesting depth of insertions. Insertions are nested if a result contains placeholders
/// of other results.
pub(super) const MAX_INSERTION_DEPTH: usize = 8;

/// A resolver of the placeholders in one message, text or JSON value.
///
/// Each resolved result is memoized per nesting depth, so it is resolved at most once per depth.
pub(super) struct PlaceholderResolver<'r> {
    results: &'r QueuedResults,
    /// The number of bytes that can still be inserted.
    remaining_bytes: usize,
    texts: HashMap<(&'r str, usize), String>,
    /// The resolved JSON values, each with the size of its JSON text in bytes. The key is the
    /// placeholder and the remaining nesting depth.
    values: HashMap<(&'r str, usize), (Value, usize)>,
}

impl<'r> PlaceholderResolver<'r> {
    pub(super) fn new(results: &'r QueuedResults, remaining_bytes: usize) -> Self {
        Self { results, remaining_bytes, texts: HashMap::new(), values: HashMap::new() }
    }

    /// Replaces the placeholders in a copy of `text`. Returns `None` if no placeholder was
    /// replaced. `depth` is the remaining nesting depth.
    pub(super) fn resolve_text(&mut self, text: &str, depth: usize) -> Option<String> {
        let mut places = text.match_indices(PLACEHOLDER_PREFIX).peekable();
        places.peek()?;
        let depth = depth.checked_sub(1)?;
        let (mut filled, mut end) = (String::new(), 0);
        for (at, _) in places {
            let Some(place) = text.get(at..).and_then(placeholder_at) else { continue };
            let Some((id, queued)) = self.results.find(place) else { continue };
            filled += text.get(end..at).unwrap_or_default();
            filled += &self.inserted_text(id, queued, depth);
            end = at + PLACEHOLDER_LEN;
        }
        filled += text.get(end..).unwrap_or_default();
        (end > 0).then_some(filled)
    }

    fn inserted_text(&mut self, id: &'r str, queued: &'r QueuedOutcome, depth: usize) -> String {
        let memoized = self.texts.remove(&(id, depth));
        let text = memoized.unwrap_or_else(|| {
            let text = queued.replacement_text();
            self.resolve_text(&text, depth).unwrap_or_else(|| text.into_owned())
        });
        let inserted = if self.reserve(text.len()) { text.clone() } else { omitted_text(queued) };
        self.texts.insert((id, depth), text);
        inserted
    }

    /// Reserves `bytes` for an insertion. Returns `false` if fewer bytes remain.
    fn reserve(&mut self, bytes: usize) -> bool {
        let left = self.remaining_bytes.checked_sub(bytes);
        self.remaining_bytes = left.unwrap_or(self.remaining_bytes);
        left.is_some()
    }

    /// Replaces the placeholders in `value`. Returns `true` if a placeholder was replaced. A string
    /// that consists of one placeholder becomes the JSON value of the result. `depth` is the
    /// remaining nesting depth.
    pub(super) fn resolve_value(&mut self, value: &mut Value, depth: usize) -> bool {
        match value {
            Value::String(text) => match self.results.find(text) {
                Some((id, queued)) => {
                    let Some(depth) = depth.checked_sub(1) else { return false };
                    *value = self.placeholder_value(id, queued, depth);
                    true
                }
                None => self.resolve_text(text, depth).map(|filled| *text = filled).is_some(),
            },
            // `any` would stop at the first element with a placeholder and skip the others.
            Value::Array(values) => {
                values.iter_mut().filter_map(|it| self.resolve_value(it, depth).then_some(())).count() > 0
            }
            Value::Object(map) => {
                map.values_mut().filter_map(|it| self.resolve_value(it, depth).then_some(())).count() > 0
            }
            _ => false,
        }
    }

    fn placeholder_value(&mut self, id: &'r str, queued: &'r QueuedOutcome, depth: usize) -> Value {
        let memoized = self.values.remove(&(id, depth));
        let (value, bytes) = memoized.unwrap_or_else(|| {
            let mut value = queued.replacement_value();
            self.resolve_value(&mut value, depth);
            let bytes = value.to_string().len();
            (value, bytes)
        });
        let inserted = if self.reserve(bytes) { value.clone() } else { omitted_text(queued).into() };
        self.values.insert((id, depth), (value, bytes));
        inserted
    }

    pub(super) fn resolve_content(&mut self, content: &[Content]) -> Option<Vec<Content>> {
        if !content.iter().any(may_contain_placeholder) {
            return None;
        }
        let mut filled = content.to_vec();
        let places = filled.iter_mut().filter_map(|part| self.resolve_part(part).then_some(())).count();
        (places > 0).then_some(filled)
    }

    pub(super) fn resolve_body(&mut self, body: &MessageBody) -> Option<MessageBody> {
        Some(match body {
            MessageBody::System { content } => {
                MessageBody::System { content: self.resolve_content(content)? }
            }
            MessageBody::User { content } => MessageBody::User { content: self.resolve_content(content)? },
            MessageBody::Assistant(reply) => {
                let content = self.resolve_content(&reply.content)?;
                MessageBody::Assistant(AssistantMessage { content, ..reply.clone() })
            }
            MessageBody::Tool(result) => MessageBody::Tool(self.resolve_result(result)?.into()),
        })
    }

    fn resolve_part(&mut self, part: &mut Content) -> bool {
        match part {
            Content::Text { text } | Content::Resource { body: ResourceBody::Text(text), .. } => {
                self.resolve_text(text, MAX_INSERTION_DEPTH).map(|filled| *text = filled).is_some()
            }
            Content::Json { value } => self.resolve_value(value, MAX_INSERTION_DEPTH),
            _ => false,
        }
    }

    pub(super) fn resolve_result(&mut self, result: &ToolResult) -> Option<ToolResult> {
        let outcome = match &result.outcome {
            Outcome::Done(output) => Outcome::Done(self.resolve_output(output)?),
            Outcome::Failed(failure) => {
                let message = self.resolve_text(&failure.message, MAX_INSERTION_DEPTH)?;
                Outcome::Failed(haft_core::call::Failure { message, ..failure.clone() })
            }
        };
        Some(ToolResult { outcome, ..result.clone() })
    }

    /// Replaces the placeholders in a copy of a tool's `output`. Returns `None` if no placeholder
    /// was replaced.
    ///
    /// Up to [`MAX_INSERTED_BYTES`] are inserted into the structured output, because programs read
    /// it. The limit for the text is lower, because a model reads it.
    pub(super) fn resolve_output(&mut self, output: &ToolOutput) -> Option<ToolOutput> {
        let mut data = PlaceholderResolver::new(self.results, MAX_INSERTED_BYTES);
        let structured = output.structured.as_ref().and_then(|value| data.resolved_copy(value));
        let is_json_text = |value: &Value| ToolOutput::structured(value.clone()).content == output.content;
        // If the text is the JSON form of the structured output, the resolved output is serialized
        // again. Insertions into the old text could make the JSON invalid.
        let json_text = structured.as_ref().filter(|_| output.structured.as_ref().is_some_and(is_json_text));
        let json_text = json_text.map(|filled| ToolOutput::structured(filled.clone()).content);
        let max_bytes = text_len(&output.content).saturating_add(self.remaining_bytes);
        let content = json_text
            .filter(|it| text_len(it) <= max_bytes)
            .or_else(|| self.resolve_content(&output.content));
        (content.is_some() || structured.is_some()).then(|| ToolOutput {
            content: content.unwrap_or_else(|| output.content.clone()),
            structured: structured.or_else(|| output.structured.clone()),
            ..output.clone()
        })
    }

    /// Replaces the placeholders in a copy of `value`. Returns `None` if no placeholder was
    /// replaced.
    pub(super) fn resolved_copy(&mut self, value: &Value) -> Option<Value> {
        if !value_may_contain_placeholder(value) {
            return None;
        }
        let mut filled = value.clone();
        self.resolve_value(&mut filled, MAX_INSERTION_DEPTH).then_some(filled)
    }
}

/// Returns the text that is inserted instead of a result that exceeds the remaining byte budget.
fn omitted_text(queued: &QueuedOutcome) -> String {
    let why = "left out: there are too many results in one text";
    match queued.result_handle() {
        Some(handle) => format!("[{why}; the whole result is stored as {handle:?}]"),
        None => format!("[{why}]"),
    }
}

fn text_len(content: &[Content]) -> usize {
    content.iter().map(|part| part.as_text().len()).sum()
}

/// Returns `true` if `part` may contain a placeholder. This check avoids copying content without
/// placeholders.
fn may_contain_placeholder(part: &Content) -> bool {
    match part {
        Content::Text { text } | Content::Resource { body: ResourceBody::Text(text), .. } => {
            text.contains(PLACEHOLDER_PREFIX)
        }
        Content::Json { value } => value_may_contain_placeholder(value),
        _ => false,
    }
}

fn value_may_contain_placeholder(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains(PLACEHOLDER_PREFIX),
        Value::Array(values) => values.iter().any(value_may_contain_placeholder),
        Value::Object(map) => map.values().any(value_may_contain_placeholder),
        _ => false,
    }
}
