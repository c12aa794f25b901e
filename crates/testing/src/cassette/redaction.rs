//! Removes secrets from recorded requests and replies.

use std::sync::Arc;

use serde_json::Value;

use super::exchange::RecordedReply;
use super::recorded_error::RecordedError;
use haft_core::model::{ChatEvent, ModelError};

/// Functions that remove secrets from the texts of requests and replies. They are applied in
/// insertion order, before a request or reply is recorded or compared.
#[derive(Clone, Default)]
pub(super) struct Redaction(Vec<RedactFn>);

type RedactFn = Arc<dyn Fn(&str) -> String + Send + Sync>;

impl Redaction {
    pub(super) fn add(&mut self, change: impl Fn(&str) -> String + Send + Sync + 'static) {
        self.0.push(Arc::new(change));
    }

    fn redact_text(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, change| change(&text))
    }

    /// Redacts all strings in `value`, except for the names of object members.
    pub(super) fn redact_value(&self, value: &mut Value) {
        match value {
            _ if self.0.is_empty() => {}
            Value::String(text) => *text = self.redact_text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact_value(item)),
            Value::Object(members) => members.values_mut().for_each(|member| self.redact_value(member)),
            _ => {}
        }
    }

    /// Redacts all strings in `reply`. If the redacted JSON cannot be parsed as a reply, returns a
    /// reply that contains only an error.
    pub(super) fn redact_reply(&self, mut reply: RecordedReply) -> RecordedReply {
        if self.0.is_empty() {
            return reply;
        }
        let joined = join_deltas(&reply.events);
        let is_split =
            |event: &ChatEvent| delta_text(event).is_some_and(|text| self.redact_text(text) != text);
        // A secret may be split between two events, for example into `hun` and `ter2`. If the
        // joined text of several events contains a secret, redact the joined events instead.
        if joined.iter().any(is_split) {
            reply.events = joined;
        }
        let unreadable =
            || RecordedError::from(&ModelError::failed("the redaction made the reply unreadable"));
        let mut value = serde_json::to_value(reply).unwrap_or_default();
        self.redact_value(&mut value);
        serde_json::from_value(value)
            .unwrap_or_else(|_| RecordedReply { error: Some(unreadable()), ..RecordedReply::default() })
    }
}

fn delta_text(event: &ChatEvent) -> Option<&str> {
    match event {
        ChatEvent::TextDelta { text } | ChatEvent::ReasoningDelta { text } => Some(text),
        ChatEvent::ToolCallDelta { arguments, .. } => Some(arguments),
        _ => None,
    }
}

/// Joins all text deltas into one event, all reasoning deltas into one event, and the argument
/// deltas of each call into one event.
fn join_deltas(events: &[ChatEvent]) -> Vec<ChatEvent> {
    let mut joined: Vec<ChatEvent> = Vec::new();
    for event in events {
        let is_grown = joined.iter_mut().any(|earlier| match (earlier, event) {
            (ChatEvent::TextDelta { text }, ChatEvent::TextDelta { text: more })
            | (ChatEvent::ReasoningDelta { text }, ChatEvent::ReasoningDelta { text: more }) => {
                text.push_str(more);
                true
            }
            (
                ChatEvent::ToolCallDelta { index, arguments },
                ChatEvent::ToolCallDelta { index: of, arguments: more },
            ) if index == of => {
                arguments.push_str(more);
                true
            }
            _ => false,
        });
        if !is_grown {
            joined.push(event.clone());
        }
    }
    joined
}
