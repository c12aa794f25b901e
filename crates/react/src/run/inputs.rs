//! What a run is asked, as data.

use std::sync::Arc;

use haft_core::{AgentErrorKind, Content, Message, MessageBody, Schema, Value};

/// Holds the new messages against the declared inputs: the last of them has these as JSON.
pub(super) fn check(inputs: Option<&Schema>, new: &[Arc<Message>]) -> Result<(), AgentErrorKind> {
    let (Some(schema), Some(last)) = (inputs, new.last()) else { return Ok(()) };
    let Some(value) = data(last) else {
        let said = "the inputs must be given as data: one JSON object, by `Content::json`, of the schema";
        return Err(AgentErrorKind::InvalidInput(format!("{said} {}", schema.as_value())));
    };
    let invalid = |violations| AgentErrorKind::InvalidInput(format!("the inputs do not fit: {violations}"));
    schema.validate(value).map_err(invalid)
}

fn data(message: &Message) -> Option<&Value> {
    let MessageBody::User { content } = message.body() else { return None };
    content.iter().find_map(|piece| match piece {
        Content::Json { value } => Some(value),
        _ => None,
    })
}
