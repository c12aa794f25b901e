//! Changes to all strings of a message.

use std::sync::Arc;

use haft_core::{
    Message, ToolCall, ToolOutput, ToolResult,
    call::{Failure, Outcome},
    content::{Content, ResourceBody},
    message::{AssistantMessage, MessageBody},
};
use serde_json::Value;

/// A function that returns the new text of a string, or `None` if the string is unchanged.
pub(super) type MapText<'a> = &'a mut dyn FnMut(&str) -> Option<String>;

/// Returns a copy of `message` with all texts changed by `map`. Tool names, ids, media and provider
/// data are not changed.
pub(super) fn map_message(message: &Message, map: MapText<'_>) -> Message {
    let body = match message.body() {
        MessageBody::System { content } => MessageBody::System { content: map_content(content, map) },
        MessageBody::User { content } => MessageBody::User { content: map_content(content, map) },
        MessageBody::Assistant(reply) => MessageBody::Assistant(map_reply(reply.clone(), map)),
        MessageBody::Tool(result) => MessageBody::Tool(Arc::new(map_result(result, map))),
    };
    let changed = Message::new(body).with_metadata(message.metadata().clone());
    match message.created_at() {
        Some(time) => changed.with_created_at(time),
        None => changed,
    }
}

/// Changes the texts of `reply`: its content, reasoning and refusal, and the strings in the
/// arguments of its calls.
fn map_reply(reply: AssistantMessage, map: MapText<'_>) -> AssistantMessage {
    let content = map_content(&reply.content, map);
    let reasoning = reply.reasoning.map(|text| map(&text).unwrap_or(text));
    let refusal = reply.refusal.map(|text| map(&text).unwrap_or(text));
    let tool_calls = reply.tool_calls.into_iter().map(|call| map_call(call, map)).collect();
    AssistantMessage { content, reasoning, refusal, tool_calls, provider_data: reply.provider_data }
}

/// Changes the strings in the arguments of `call`. Arguments that are not JSON are changed as text.
fn map_call(call: ToolCall, map: MapText<'_>) -> ToolCall {
    let changed = match call.arguments.value() {
        Ok(value) => {
            let mut changed = value.clone();
            map_value(&mut changed, map);
            (changed != *value).then(|| changed.into())
        }
        Err(_) => map(call.arguments.as_str()).map(Into::into),
    };
    match changed {
        Some(arguments) => ToolCall { arguments, ..call },
        None => call,
    }
}

fn map_result(result: &ToolResult, map: MapText<'_>) -> ToolResult {
    let outcome = match &result.outcome {
        Outcome::Done(output) => {
            let mut structured = output.structured.clone();
            if let Some(value) = &mut structured {
                map_value(value, map);
            }
            let content = map_content(&output.content, map);
            Outcome::Done(ToolOutput { content, structured, ..output.clone() })
        }
        Outcome::Failed(failure) => {
            let message = map(&failure.message).unwrap_or_else(|| failure.message.clone());
            Outcome::Failed(Failure { message, ..failure.clone() })
        }
    };
    let warnings = result.warnings.iter().map(|text| map(text).unwrap_or_else(|| text.clone())).collect();
    ToolResult { outcome, warnings, ..result.clone() }
}

pub(super) fn map_content(content: &[Content], map: MapText<'_>) -> Vec<Content> {
    let mut content = content.to_vec();
    for piece in &mut content {
        match piece {
            Content::Text { text } => map_string(text, map),
            Content::Resource { uri, body, .. } => {
                map_string(uri, map);
                if let ResourceBody::Text(text) = body {
                    map_string(text, map);
                }
            }
            Content::ResourceLink { uri, name, description, .. } => {
                map_string(uri, map);
                map_string(name, map);
                description.iter_mut().for_each(|text| map_string(text, map));
            }
            Content::Json { value } => map_value(value, map),
            _ => {}
        }
    }
    content
}

fn map_string(text: &mut String, map: MapText<'_>) {
    if let Some(changed) = map(text) {
        *text = changed;
    }
}

/// Changes the strings in `value`. Keys and numbers are not changed.
fn map_value(value: &mut Value, map: MapText<'_>) {
    match value {
        Value::String(text) => map_string(text, map),
        Value::Array(items) => items.iter_mut().for_each(|item| map_value(item, map)),
        Value::Object(members) => members.values_mut().for_each(|member| map_value(member, map)),
        _ => {}
    }
}
