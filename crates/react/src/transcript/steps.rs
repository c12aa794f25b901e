//! Conversion of the calls in a conversation to [`AgentStep`]s.

use std::sync::Arc;

use haft_core::{Message, ToolResult, agent::AgentStep, message::MessageBody};

pub use crate::dialect::reasoning_or_text;

/// Returns the calls in `messages` with their results, in call order. Omits calls without a result.
pub fn agent_steps(messages: &[Arc<Message>]) -> Vec<AgentStep> {
    let replies = (0..).zip(messages).filter_map(|(index, message)| match message.body() {
        MessageBody::Assistant(reply) => Some((index, reply)),
        _ => None,
    });
    let steps = (1..).zip(replies).flat_map(|(step_number, (index, reply))| {
        let after = messages.get(index..).unwrap_or_default();
        reply.tool_calls.iter().filter_map(move |call| {
            Some(AgentStep {
                step_number,
                tool_name: call.name.clone(),
                tool_args: call.arguments.value_or_string(),
                result: Arc::clone(find_result(after, &call.id)?),
                reasoning: reasoning_or_text(reply),
            })
        })
    });
    steps.collect()
}

/// Returns the first result of the call with this `id` in `messages`. `None` if the call has no
/// result. The search is short, since most results directly follow their calls.
fn find_result<'a>(messages: &'a [Arc<Message>], id: &str) -> Option<&'a Arc<ToolResult>> {
    let mut results = messages.iter().filter_map(|message| match message.body() {
        MessageBody::Tool(result) => Some(result),
        _ => None,
    });
    results.find(|result| result.call_id == id)
}
