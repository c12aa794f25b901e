//! Pairing of calls and results in a view.

use std::collections::BTreeSet;

use haft_core::message::{MessageBody, TranscriptView};

/// Returns a description of the first call without a result, or of the first result without a call.
/// Results must directly follow the reply with their calls. `None` if each call has its result.
pub(crate) fn find_unpaired_call(view: &TranscriptView) -> Option<String> {
    let mut open: BTreeSet<&str> = BTreeSet::new();
    for message in view.iter() {
        match message.body() {
            MessageBody::Tool(result) => {
                if !open.remove(result.call_id.as_str()) {
                    return Some(format!("the result of the call {:?} is without its call", result.call_id));
                }
            }
            _ => {
                if let Some(id) = open.first() {
                    return Some(format!("the call {id:?} is without its result"));
                }
                open.extend(message.tool_calls().iter().map(|call| call.id.as_str()));
            }
        }
    }
    open.first().map(|id| format!("the call {id:?} is without its result"))
}
