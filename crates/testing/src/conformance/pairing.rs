//! Checks that the calls in a transcript are paired with results.

use std::collections::HashSet;

use haft_core::{Transcript, message::MessageBody};

/// Describes the first problem with the calls in `transcript`. Call ids must be unique. Each
/// message with calls must be followed by exactly one result for each call, in call order. `None`
/// if there is no problem.
pub(super) fn find_pairing_problem(transcript: &Transcript) -> Option<String> {
    let mut ids = HashSet::new();
    let mut open: Vec<&String> = Vec::new();
    for message in transcript.messages() {
        match message.body() {
            MessageBody::Tool(result) => match open.first() {
                Some(id) if **id == result.call_id => drop(open.remove(0)),
                Some(id) => {
                    return Some(format!(
                        "the result of {:?} is in the place of the result of {id:?}",
                        result.call_id
                    ));
                }
                None => return Some(format!("the result of {:?} belongs to no call", result.call_id)),
            },
            _ if !open.is_empty() => return open.first().map(|id| format!("the call {id:?} has no result")),
            _ => open.extend(message.tool_calls().iter().map(|call| &call.id)),
        }
        if let Some(call) = message.tool_calls().iter().find(|call| !ids.insert(&call.id)) {
            return Some(format!("two calls have the id {:?}", call.id));
        }
    }
    open.first().map(|id| format!("the call {id:?} has no result"))
}
