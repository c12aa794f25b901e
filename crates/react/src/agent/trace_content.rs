//! Conversion of messages to the JSON format of OpenTelemetry's GenAI attributes, for spans.

use std::sync::Arc;

use haft_core::{Message, message::MessageBody, model::FinishReason};
use serde_json::{Value, json};

/// Serializes `messages` as a JSON array. Each message is an object with `role` and `parts`.
pub(super) fn messages_json<'a>(messages: impl IntoIterator<Item = &'a Arc<Message>>) -> String {
    let messages = messages.into_iter().map(|message| {
        let role = match message.body() {
            MessageBody::System { .. } => "system",
            MessageBody::User { .. } => "user",
            MessageBody::Assistant(_) => "assistant",
            MessageBody::Tool(_) => "tool",
        };
        json!({"role": role, "parts": parts(message)})
    });
    Value::Array(messages.collect()).to_string()
}

/// Serializes the parts of `message` as a JSON array. The array is empty if `message` is `None`.
pub(super) fn parts_json(message: Option<&Message>) -> String {
    Value::Array(message.map(parts).unwrap_or_default()).to_string()
}

fn parts(message: &Message) -> Vec<Value> {
    if let MessageBody::Tool(result) = message.body() {
        return vec![
            json!({"type": "tool_call_response", "id": result.call_id, "response": result.model_text()}),
        ];
    }
    let thought = match message.body() {
        MessageBody::Assistant(reply) => reply.reasoning.as_ref(),
        _ => None,
    };
    let thought = thought.map(|thought| json!({"type": "reasoning", "content": thought}));
    let text = Some(message.text()).filter(|text| !text.is_empty());
    let text = text.map(|text| json!({"type": "text", "content": text}));
    let calls = message.tool_calls().iter().map(
        |call| json!({"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments}),
    );
    thought.into_iter().chain(text).chain(calls).collect()
}

/// Returns OpenTelemetry's name for `reason`. For [`FinishReason::Other`], returns the name from
/// the server unchanged.
pub(super) fn finish_reason_name(reason: &FinishReason) -> &str {
    match reason {
        FinishReason::Stop => "stop",
        FinishReason::ToolCalls => "tool_call",
        FinishReason::Length => "length",
        FinishReason::ContentFilter => "content_filter",
        FinishReason::Other(reason) => reason,
    }
}
