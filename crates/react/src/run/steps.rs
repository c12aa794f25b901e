//! The calls of a run, as steps.

use std::{collections::HashMap, sync::Arc};

use haft_core::{AgentStep, AssistantMessage, Message, MessageBody, ToolCall, ToolResult, Value};

/// The calls in these messages with what came of them, in order; a call without a result is left out.
pub(crate) fn steps(messages: &[Arc<Message>]) -> Vec<AgentStep> {
    let results = results(messages);
    let replies = messages.iter().filter_map(|message| match message.body() {
        MessageBody::Assistant(reply) => Some(reply),
        _ => None,
    });
    let steps = (1..).zip(replies).flat_map(|(step_number, reply)| {
        let results = &results;
        reply.tool_calls.iter().filter_map(move |call| {
            let result = (*results.get(call.id.as_str())?).clone();
            Some(AgentStep {
                step_number,
                tool_name: call.name.clone(),
                tool_args: arguments(call),
                result,
                reasoning: thought(reply),
            })
        })
    });
    steps.collect()
}

fn results(messages: &[Arc<Message>]) -> HashMap<&str, &ToolResult> {
    let results = messages.iter().filter_map(|message| match message.body() {
        MessageBody::Tool(result) => Some((result.call_id.as_str(), &**result)),
        _ => None,
    });
    results.collect()
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
