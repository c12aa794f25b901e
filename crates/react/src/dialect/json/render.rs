//! The messages of a transcript, as this dialect writes them.

use std::sync::Arc;

use haft_core::{AssistantMessage, Content, Message, MessageBody, ToolResult, Value};
use serde_json::json;

use super::{super::FINISH, key};
use crate::run::{arguments, is_unusable, thought};

/// A message as it is sent, kept in the slot of the one that it is made of.
struct Rendered(Arc<Message>);

pub(super) fn message(message: &Arc<Message>) -> Arc<Message> {
    match message.body() {
        MessageBody::Assistant(reply) => Arc::clone(
            &message.rendering(|message| Rendered(Arc::new(Message::assistant(steps(message, reply))))).0,
        ),
        MessageBody::Tool(result) => {
            Arc::clone(&message.rendering(|_| Rendered(Arc::new(observation(result)))).0)
        }
        // What people and programs say is the same in every dialect.
        MessageBody::System { .. } | MessageBody::User { .. } => Arc::clone(message),
    }
}

/// A reply as the steps that this dialect would have had for it; what is no step stays as it was said.
fn steps(message: &Message, reply: &AssistantMessage) -> String {
    let thought = thought(reply).unwrap_or_default();
    if !reply.tool_calls.is_empty() {
        let steps = reply.tool_calls.iter().map(|call| step(&thought, &call.name, &arguments(call)));
        return steps.collect::<Vec<_>>().join("\n");
    }
    let thought = reply.reasoning.as_deref().unwrap_or_default();
    match reply.content.as_slice() {
        [Content::Json { value }] => step(thought, FINISH, value),
        _ if is_unusable(message) => reply.text(),
        _ if reply.refusal.is_some() => reply.refusal.clone().unwrap_or_default(),
        _ => step(thought, FINISH, &json!({key::ANSWER: reply.text()})),
    }
}

pub(super) fn step(thought: &str, tool_name: &str, tool_args: &Value) -> String {
    json!({key::THOUGHT: thought, key::TOOL_NAME: tool_name, key::TOOL_ARGS: tool_args}).to_string()
}

pub(super) fn observed(tool_name: &str, result: &str) -> String {
    format!("Observation from {tool_name}: {result}")
}

fn observation(result: &ToolResult) -> Message {
    let text = observed(&result.name, &result.model_text());
    let media = result.output().map_or(&[][..], |output| &output.content);
    let media = media.iter().filter(|piece| matches!(piece, Content::Image { .. } | Content::Audio { .. }));
    let content = std::iter::once(Content::text(text)).chain(media.cloned()).collect();
    Message::new(MessageBody::User { content })
}
