//! The calls of a run, as steps.

use std::sync::Arc;

use haft_core::{
    Message, ToolCall, ToolResult,
    agent::AgentStep,
    message::{AssistantMessage, MessageBody},
};
use serde_json::Value;

/// The calls in these messages with what came of them, in order; a call without a result is left out.
pub(crate) fn steps(messages: &[Arc<Message>]) -> Vec<AgentStep> {
    let replies = (0..).zip(messages).filter_map(|(place, message)| match message.body() {
        MessageBody::Assistant(reply) => Some((place, reply)),
        _ => None,
    });
    let steps = (1..).zip(replies).flat_map(|(step_number, (place, reply))| {
        let after = messages.get(place..).unwrap_or_default();
        reply.tool_calls.iter().filter_map(move |call| {
            Some(AgentStep {
                step_number,
                tool_name: call.name.clone(),
                tool_args: arguments(call),
                result: result(after, &call.id)?.clone(),
                reasoning: thought(reply),
            })
        })
    });
    steps.collect()
}

/// The result of a call. Most stand right behind the calls.
fn result<'a>(messages: &'a [Arc<Message>], id: &str) -> Option<&'a ToolResult> {
    let mut results = messages.iter().filter_map(|message| match message.body() {
        MessageBody::Tool(result) => Some(&**result),
        _ => None,
    });
    results.find(|result| result.call_id == id)
}

/// What a model thought before its calls, or said beside them.
pub(crate) fn thought(reply: &AssistantMessage) -> Option<String> {
    let said = || Some(reply.text()).filter(|text| !text.is_empty());
    reply.reasoning.clone().or_else(said)
}

/// The arguments as JSON where they are JSON, else as the text they are.
pub(crate) fn arguments(call: &ToolCall) -> Value {
    serde_json::from_str(&call.arguments).unwrap_or_else(|_| Value::String(call.arguments.clone()))
}
