//! Marks: metadata that identifies messages such as hints, summaries and rejected answers.

use haft_core::{Message, content::Content, message::MessageBody};
use serde_json::{Map, Value};

pub use crate::dialect::{is_rejected, is_unusable};
pub(crate) use crate::dialect::{mark_rejected, mark_unusable};

/// The metadata key that marks hints: messages from the run itself to the model, with the user
/// role.
const HINT_KEY: &str = "hint";
/// The metadata key that marks messages enqueued during the run.
const ENQUEUED_KEY: &str = "enqueued";
/// The metadata key of summaries. The value is the number of messages directly before the summary
/// that were not summarized.
const SUMMARY_KEY: &str = "summary";
/// The metadata key of replacement notes. The value is the distance from the replaced message to
/// the note.
const REPLACES_KEY: &str = "replaces";
/// The metadata key of hand-offs. The value is the name of the next agent.
const HAND_OFF_KEY: &str = "handed_to";
/// The metadata key that marks replies whose calls the model wrote as text.
const WRITTEN_CALLS_KEY: &str = "written_calls";
/// The metadata key that marks outputs from a separate request after the last step.
const EXTRACTED_KEY: &str = "extracted";

/// Creates a hint: a message from the run to the model, for example about a problem with the last
/// reply. [`is_hint`] recognizes hints.
pub fn hint_message(text: impl Into<String>) -> Message {
    mark(Message::user(text.into()), HINT_KEY)
}

/// Creates a message with the summary `text` of the conversation. The summary covers all earlier
/// messages except the `kept` messages directly before it.
pub(crate) fn summary_message(text: impl Into<String>, kept: usize) -> Message {
    let text = format!("Summary of the conversation so far:\n{}", text.into());
    with_metadata_entry(hint_message(text), SUMMARY_KEY, Value::from(kept))
}

/// Returns the number of messages directly before the summary `message` that were not summarized.
/// `None` if `message` is not a summary.
pub(crate) fn unsummarized_count(message: &Message) -> Option<usize> {
    let kept = message.metadata_value(SUMMARY_KEY).filter(|_| is_hint(message));
    kept?.as_u64()?.try_into().ok()
}

/// Creates a replacement note: later requests contain `content` in place of the content of the
/// message `offset` positions before the note. The note itself is not sent.
pub(crate) fn replacement_message(content: Vec<Content>, offset: usize) -> Message {
    let note = mark(Message::new(MessageBody::User { content }), HINT_KEY);
    with_metadata_entry(note, REPLACES_KEY, Value::from(offset))
}

/// Returns the distance from the replaced message to `message`. `None` if `message` is not a
/// replacement note.
pub(crate) fn replaced_offset(message: &Message) -> Option<usize> {
    let offset = message.metadata_value(REPLACES_KEY).filter(|_| is_hint(message));
    offset?.as_u64()?.try_into().ok()
}

/// Creates the message that announces a hand-off to the model of the agent `to`.
pub(crate) fn handoff_message(to: &str, reason: &str) -> Message {
    let message = hint_message(format!("You go on from here: {}.", reason.trim_end_matches('.')));
    with_metadata_entry(message, HAND_OFF_KEY, Value::from(to))
}

/// Returns the name of the next agent if `message` announces a hand-off.
pub(crate) fn handoff_target(message: &Message) -> Option<&str> {
    message.metadata_value(HAND_OFF_KEY).filter(|_| is_hint(message))?.as_str()
}

/// Marks `reply` as a reply with [written calls](has_written_calls).
pub(crate) fn mark_written_calls(reply: Message) -> Message {
    mark(reply, WRITTEN_CALLS_KEY)
}

/// Marks `reply` as [extracted](is_extracted).
pub(crate) fn mark_extracted(reply: Message) -> Message {
    mark(reply, EXTRACTED_KEY)
}

/// Marks `message` as [enqueued](is_enqueued).
pub(crate) fn mark_enqueued(message: Message) -> Message {
    mark(message, ENQUEUED_KEY)
}

/// Returns `true` for a reply whose calls the model wrote as text, see
/// [`NativeCalls`](crate::NativeCalls).
pub fn has_written_calls(message: &Message) -> bool {
    is_marked(message, WRITTEN_CALLS_KEY)
}

/// Returns `true` for outputs that the model returned in a separate request after the last step,
/// see [`OutputStrategy::Extraction`](crate::OutputStrategy::Extraction).
pub fn is_extracted(message: &Message) -> bool {
    is_marked(message, EXTRACTED_KEY)
}

/// Returns `true` for a message that was [enqueued](crate::Run::enqueue) during a run.
pub fn is_enqueued(message: &Message) -> bool {
    is_marked(message, ENQUEUED_KEY)
}

/// Returns `true` for a hint: a message from the run itself to the model, with the user role.
///
/// Programs that display a conversation usually omit hints.
pub fn is_hint(message: &Message) -> bool {
    is_marked(message, HINT_KEY)
}

fn mark(message: Message, key: &str) -> Message {
    with_metadata_entry(message, key, Value::Bool(true))
}

fn with_metadata_entry(message: Message, key: &str, value: Value) -> Message {
    let mut metadata: Map<String, Value> = message.metadata().clone();
    metadata.insert(key.to_owned(), value);
    message.with_metadata(metadata)
}

fn is_marked(message: &Message, key: &str) -> bool {
    message.metadata_value(key) == Some(&Value::Bool(true))
}
