//! Marks in the metadata of messages.

use std::sync::Arc;

use haft_core::{Message, ToolResult};
use serde_json::Value;
use serde_json::{Map, json};

/// Set on messages of the run itself, in the role of a user.
const HINT: &str = "hint";
/// Set on unusable messages of the model: neither calls nor an accepted answer.
const UNUSABLE: &str = "unusable";
/// Set on answers rejected by a validator.
const REJECTED: &str = "rejected";
/// Set on messages enqueued during the run.
const ENQUEUED: &str = "enqueued";
/// Set on summaries: the number of uncovered messages directly before the summary.
const SUMMARY: &str = "summary";
/// Set on results of added calls: the results by call id.
const CALL_RESULTS: &str = "queued";

/// Creates a message from the run to the model, such as a problem with its reply. [`is_hint`]
/// recognizes it.
pub fn hint(text: impl Into<String>) -> Message {
    marked(Message::user(text.into()), HINT)
}

/// Creates a summary of the conversation so far, without the last `kept` messages.
pub(super) fn summary(text: impl Into<String>, kept: usize) -> Message {
    let text = format!("Summary of the conversation so far:\n{}", text.into());
    with(hint(text), SUMMARY, Value::from(kept))
}

/// Returns the number of uncovered messages directly before a summary, or `None` if the message is
/// not a summary.
pub fn summarized(message: &Message) -> Option<usize> {
    let kept = message.metadata_value(SUMMARY).filter(|_| is_hint(message));
    kept?.as_u64()?.try_into().ok()
}

/// Creates the message that records results of added calls. `results` is an
/// object by call id, which [`call_results`] returns.
pub fn call_results_note(text: impl Into<String>, results: Value) -> Message {
    with(hint(text), CALL_RESULTS, results)
}

/// The results of [added calls](super::Run::add_calls) in a message, as an object by call id. Each
/// is `{"executed": result}`.
pub fn call_results(message: &Message) -> Option<&Value> {
    message.metadata_value(CALL_RESULTS).filter(|_| is_hint(message))
}

pub(super) fn results_of_added_calls(results: &[Arc<ToolResult>]) -> Message {
    let lines = results.iter().map(|result| {
        let (id, text) = (&result.call_id, result.model_text());
        if result.is_success() {
            format!("\n{id}: {text}")
        } else {
            format!("\n{id}: [{} failed: {text}]", result.name)
        }
    });
    let text = format!("Results of calls:{}", lines.collect::<String>());
    let values = results.iter().map(|result| (result.call_id.clone(), json!({"executed": result})));
    call_results_note(text, Value::Object(values.collect()))
}

pub(super) fn unusable(reply: Message) -> Message {
    marked(reply, UNUSABLE)
}

pub(super) fn rejected(reply: Message) -> Message {
    marked(marked(reply, UNUSABLE), REJECTED)
}

pub(super) fn enqueued(message: Message) -> Message {
    marked(message, ENQUEUED)
}

/// Returns `true` for an answer rejected by a validator.
pub fn is_rejected(message: &Message) -> bool {
    is_marked(message, REJECTED)
}

/// Returns `true` for a message [enqueued](super::Run::enqueue) during a run.
pub fn is_enqueued(message: &Message) -> bool {
    is_marked(message, ENQUEUED)
}

/// Returns `true` for a hint: a message of the run itself to the model, in the role of a user.
///
/// Programs that display a conversation usually omit it.
pub fn is_hint(message: &Message) -> bool {
    is_marked(message, HINT)
}

/// Returns `true` for an unusable message of the model: neither calls nor an accepted answer. It is
/// followed by a [hint](is_hint), or by the end of a failed run.
pub fn is_unusable(message: &Message) -> bool {
    is_marked(message, UNUSABLE)
}

fn marked(message: Message, key: &str) -> Message {
    with(message, key, Value::Bool(true))
}

fn with(message: Message, key: &str, value: Value) -> Message {
    let mut metadata: Map<String, Value> = message.metadata().clone();
    metadata.insert(key.to_owned(), value);
    message.with_metadata(metadata)
}

fn is_marked(message: &Message, key: &str) -> bool {
    message.metadata_value(key) == Some(&Value::Bool(true))
}
