//! Marks of replies in a transcript that are not steps.

use haft_core::Message;
use serde_json::Value;

/// The metadata key that marks unusable replies.
const UNUSABLE: &str = "unusable";
/// The metadata key that marks rejected answers.
const REJECTED: &str = "rejected";

/// Marks `reply` as [unusable](is_unusable).
pub fn mark_unusable(reply: Message) -> Message {
    mark(reply, UNUSABLE)
}

/// Marks `reply` as [unusable](is_unusable) and [rejected](is_rejected).
pub fn mark_rejected(reply: Message) -> Message {
    mark(mark(reply, UNUSABLE), REJECTED)
}

/// Returns `true` for an unusable reply: it contains no calls and is not the accepted answer. The
/// next message is a hint about the problem, unless the run failed or was cancelled. A dialect that
/// writes steps renders the text of the reply unchanged.
pub fn is_unusable(message: &Message) -> bool {
    is_marked(message, UNUSABLE)
}

/// Returns `true` for an answer that an output validator rejected, or whose validation did not
/// finish because the run was cancelled or failed. Dialects render it like an accepted answer.
pub fn is_rejected(message: &Message) -> bool {
    is_marked(message, REJECTED)
}

fn mark(message: Message, key: &str) -> Message {
    let mut metadata = message.metadata().clone();
    metadata.insert(key.to_owned(), Value::Bool(true));
    message.with_metadata(metadata)
}

fn is_marked(message: &Message, key: &str) -> bool {
    message.metadata_value(key) == Some(&Value::Bool(true))
}
