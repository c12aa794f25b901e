//! What must not be written down.

use std::sync::Arc;

use serde_json::Value;

use super::exchange::Reply;
use super::failure::RecordedError;
use haft_core::model::ChatEvent;

/// Changes texts before they are written down or compared.
#[derive(Clone, Default)]
pub(super) struct Redaction(Vec<Change>);

type Change = Arc<dyn Fn(&str) -> String + Send + Sync>;

impl Redaction {
    pub(super) fn add(&mut self, change: impl Fn(&str) -> String + Send + Sync + 'static) {
        self.0.push(Arc::new(change));
    }

    fn text(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, change| change(&text))
    }

    /// Changes every text in a value but the names of its members.
    pub(super) fn value(&self, value: &mut Value) {
        match value {
            _ if self.0.is_empty() => {}
            Value::String(text) => *text = self.text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(members) => members.values_mut().for_each(|member| self.value(member)),
            _ => {}
        }
    }

    pub(super) fn reply(&self, mut reply: Reply) -> Reply {
        if self.0.is_empty() {
            return reply;
        }
        let joined = joined(&reply.events);
        let is_split = |event: &ChatEvent| text_of(event).is_some_and(|text| self.text(text) != text);
        // What is found only in the whole came in pieces: then they are put together.
        if joined.iter().any(is_split) {
            reply.events = joined;
        }
        let unreadable =
            || RecordedError::Failed { message: "the redaction made the reply unreadable".to_owned() };
        let mut value = serde_json::to_value(reply).unwrap_or_default();
        self.value(&mut value);
        serde_json::from_value(value)
            .unwrap_or_else(|_| Reply { error: Some(unreadable()), ..Reply::default() })
    }
}

fn text_of(event: &ChatEvent) -> Option<&str> {
    match event {
        ChatEvent::TextDelta { text } | ChatEvent::ReasoningDelta { text } => Some(text),
        ChatEvent::ToolCallDelta { arguments, .. } => Some(arguments),
        _ => None,
    }
}

/// The same events with all pieces of one text in one.
fn joined(events: &[ChatEvent]) -> Vec<ChatEvent> {
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
