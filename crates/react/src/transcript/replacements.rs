//! Messages that hooks have replaced, for model requests.

use std::{collections::BTreeMap, sync::Arc};

use haft_core::{
    Message, ToolCall, ToolOutput, ToolResult,
    call::Outcome,
    message::{AssistantMessage, MessageBody},
};

use super::marks::replaced_offset;
use crate::dialect::FINISH;

/// Replaced messages by their transcript index.
pub(crate) type Replacements = Arc<BTreeMap<usize, Arc<Message>>>;

/// Returns the replacements in the notes of `messages` from the index `from` on.
pub(crate) fn replacements(
    messages: &[Arc<Message>],
    from: usize,
) -> impl Iterator<Item = (usize, Arc<Message>)> {
    let notes = messages.get(from..).unwrap_or_default();
    (from..).zip(notes).filter_map(|(note_index, note)| {
        let index = usize::checked_sub(note_index, replaced_offset(note)?)?;
        let original = messages.get(index)?;
        let replacement = match original.body() {
            MessageBody::Assistant(reply) => Message::assistant(AssistantMessage {
                content: note.content().to_vec(),
                tool_calls: reply.tool_calls.iter().map(without_answer).collect(),
                refusal: reply.refusal.clone(),
                // The rest belongs to the original text. The provider could restore it from its data.
                ..AssistantMessage::default()
            }),
            MessageBody::Tool(result) => {
                let output = ToolOutput { content: note.content().to_vec(), ..ToolOutput::default() };
                let outcome = Outcome::Done(output);
                Message::tool(ToolResult { outcome, warnings: Vec::new(), ..ToolResult::clone(result) })
            }
            _ => Message::new(MessageBody::User { content: note.content().to_vec() }),
        };
        Some((index, Arc::new(replacement.with_metadata(original.metadata().clone()))))
    })
}

/// Returns `call` without its arguments if it gives the answer.
fn without_answer(call: &ToolCall) -> ToolCall {
    match call.name == FINISH {
        true => ToolCall::new(call.id.as_str(), call.name.as_str(), "{}"),
        false => call.clone(),
    }
}
