//! Calls and results of a transcript, pair by pair.

use std::collections::HashSet;

use haft_core::{Transcript, message::MessageBody};

/// What is wrong with the pairs: every call has exactly one result, in the order of the calls, before anything else is said.
pub(super) fn broken(transcript: &Transcript) -> Option<String> {
    let mut ids = HashSet::new();
    let mut open: Vec<&String> = Vec::new();
    for message in transcript.messages() {
        match message.body() {
            MessageBody::Tool(result) => match open.first() {
                Some(id) if **id == result.call_id => drop(open.remove(0)),
                Some(id) => {
                    return Some(format!(
                        "the result of {:?} comes where that of {id:?} should be",
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
