//! Validation of the structured input of a run.

use std::sync::Arc;

use haft_core::{Message, Schema, agent::AgentErrorKind, content::Content, message::MessageBody};
use serde_json::Value;

use crate::transcript::is_from_user;

/// Validates the structured input of a run against the schema `inputs`. The new messages of the run
/// begin at index `start`. The input is the first JSON content of the last new message, or of the
/// last message from the user if there are no new messages.
pub(crate) fn validate_input(
    inputs: Option<&Schema>,
    messages: &[Arc<Message>],
    start: usize,
) -> Result<(), AgentErrorKind> {
    let Some(schema) = inputs else { return Ok(()) };
    let new = messages.get(start..).and_then(<[_]>::last);
    let last = new.or_else(|| messages.iter().rfind(|message| is_from_user(message)));
    let Some(value) = last.and_then(|message| json_content(message)) else {
        let problem = "the inputs must be given as data: one JSON object, by `Content::json`, of the schema";
        return Err(AgentErrorKind::InvalidInput(format!("{problem} {}", schema.as_value())));
    };
    let invalid = |violations| AgentErrorKind::InvalidInput(format!("the inputs do not fit: {violations}"));
    schema.validate(value).map_err(invalid)
}

/// Returns the first JSON content of `message`. `None` if `message` is not a user message or
/// contains no JSON.
fn json_content(message: &Message) -> Option<&Value> {
    let MessageBody::User { content } = message.body() else { return None };
    content.iter().find_map(|part| match part {
        Content::Json { value } => Some(value),
        _ => None,
    })
}
