//! Restores the values in a reply.

use std::collections::BTreeMap;

use haft_core::{
    ToolCall,
    content::Content,
    message::AssistantMessage,
    model::{ChatEvent, ChatResponse, ModelError},
};

use super::{mapping::Mapping, message_strings::map_content};

/// Replaces the placeholders in a reply with their values. A placeholder can be split across
/// deltas: its start is held back until the next delta.
pub(super) struct ReplyRestorer {
    mapping: Mapping,
    /// `true` if the text of the reply is JSON. `None` if this is not known before its first
    /// character.
    is_json: Option<bool>,
    text: String,
    reasoning: String,
    /// The held back arguments of each call.
    arguments: BTreeMap<usize, String>,
}

impl ReplyRestorer {
    pub(super) fn new(mapping: Mapping, is_json: bool) -> Self {
        let (text, reasoning) = (String::new(), String::new());
        Self { mapping, is_json: is_json.then_some(true), text, reasoning, arguments: BTreeMap::new() }
    }

    /// Returns the restored events for `event`.
    pub(super) fn push(
        &mut self,
        event: Result<ChatEvent, ModelError>,
    ) -> Vec<Result<ChatEvent, ModelError>> {
        let event = match event {
            Ok(ChatEvent::TextDelta { text }) => {
                self.is_json = self.is_json.or_else(|| begins_json(&text));
                let is_json = self.is_json == Some(true);
                let text = take_complete(&self.mapping, &mut self.text, &text, is_json);
                text.map(|text| ChatEvent::TextDelta { text })
            }
            Ok(ChatEvent::ReasoningDelta { text }) => {
                let text = take_complete(&self.mapping, &mut self.reasoning, &text, false);
                text.map(|text| ChatEvent::ReasoningDelta { text })
            }
            Ok(ChatEvent::ToolCallDelta { index, arguments }) => {
                let held = self.arguments.entry(index).or_default();
                let arguments = take_complete(&self.mapping, held, &arguments, true);
                arguments.map(|arguments| ChatEvent::ToolCallDelta { index, arguments })
            }
            Ok(ChatEvent::Finished(response)) => {
                let mut events = self.flush();
                events.push(Ok(ChatEvent::Finished(Box::new(self.restore_response(*response)))));
                return events;
            }
            Ok(other) => Some(other),
            Err(error) => {
                let mut events = self.flush();
                events.push(Err(self.restore_error(error)));
                return events;
            }
        };
        event.map(Ok).into_iter().collect()
    }

    /// Returns the deltas that are held back. They contain no complete placeholder.
    fn flush(&mut self) -> Vec<Result<ChatEvent, ModelError>> {
        let reasoning = ChatEvent::ReasoningDelta { text: std::mem::take(&mut self.reasoning) };
        let text = ChatEvent::TextDelta { text: std::mem::take(&mut self.text) };
        let calls = std::mem::take(&mut self.arguments).into_iter();
        let calls = calls.map(|(index, arguments)| ChatEvent::ToolCallDelta { index, arguments });
        let is_empty = |event: &ChatEvent| match event {
            ChatEvent::TextDelta { text } | ChatEvent::ReasoningDelta { text } => text.is_empty(),
            ChatEvent::ToolCallDelta { arguments, .. } => arguments.is_empty(),
            _ => false,
        };
        [reasoning, text].into_iter().chain(calls).filter(|event| !is_empty(event)).map(Ok).collect()
    }

    pub(super) fn restore_response(&self, response: ChatResponse) -> ChatResponse {
        ChatResponse { message: self.restore_message(response.message), ..response }
    }

    /// Restores the values in the partial reply of `error`.
    pub(super) fn restore_error(&self, error: ModelError) -> ModelError {
        match error {
            ModelError::Truncated { reason, partial } => {
                ModelError::Truncated { reason, partial: Box::new(self.restore_message(*partial)) }
            }
            other => other,
        }
    }

    fn restore_message(&self, message: AssistantMessage) -> AssistantMessage {
        let first = message.content.first().and_then(|piece| match piece {
            Content::Text { text } => begins_json(text),
            _ => None,
        });
        let is_json = self.is_json.or(first).unwrap_or(false);
        let plain = |text: String| self.mapping.restore(&text, false).unwrap_or(text);
        let restore = &mut |text: &str| self.mapping.restore(text, false);
        let tool_calls = message.tool_calls.into_iter().map(|call| self.restore_call(call)).collect();
        let content = if is_json && message.content.iter().all(|it| matches!(it, Content::Text { .. })) {
            map_content(&message.content, &mut |text| self.mapping.restore(text, true))
        } else {
            map_content(&message.content, restore)
        };
        AssistantMessage {
            content,
            reasoning: message.reasoning.map(plain),
            refusal: message.refusal.map(plain),
            tool_calls,
            provider_data: message.provider_data,
        }
    }

    /// Restores the values in the arguments of `call` as text, so that they equal the restored
    /// deltas.
    fn restore_call(&self, call: ToolCall) -> ToolCall {
        match self.mapping.restore(call.arguments.as_str(), true) {
            Some(arguments) => ToolCall { arguments: arguments.into(), ..call },
            None => call,
        }
    }
}

/// Returns `true` if `text` begins with a JSON object. `None` if it is blank.
fn begins_json(text: &str) -> Option<bool> {
    text.trim_start().chars().next().map(|first| first == '{')
}

/// Appends `delta` to the `held` text, and returns the restored text up to the start of a
/// placeholder that may continue in the next delta. `None` if everything is held back.
fn take_complete(mapping: &Mapping, held: &mut String, delta: &str, is_json: bool) -> Option<String> {
    held.push_str(delta);
    let complete = held.len() - mapping.open_len(held);
    let rest = held.split_off(complete);
    let text = std::mem::replace(held, rest);
    let text = mapping.restore(&text, is_json).unwrap_or(text);
    (!text.is_empty()).then_some(text)
}
