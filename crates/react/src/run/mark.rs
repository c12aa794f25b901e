//! What a run notes on messages, for whoever shows a conversation.

use haft_core::Message;
use serde_json::Map;
use serde_json::Value;

/// The key of what a run, and no person, said to the model.
const HINT: &str = "hint";
/// The key of what a model said and nobody could use.
const UNUSABLE: &str = "unusable";
/// The key of an answer that was not taken.
const REJECTED: &str = "rejected";

/// The key of what stands for a part of the conversation: how many messages right before it are no part of that.
const SUMMARY: &str = "summary";

/// The key of what tells the results of calls that no reply has asked for, by their placeholders.
const QUEUED: &str = "queued";

/// The key of what tells that another agent goes on: its name.
const HANDED: &str = "handed_to";

/// The key of a question back.
const CLARIFICATION: &str = "clarification";

/// Makes what a run tells the model by itself: what is wrong with a reply, or that it must answer now.
pub(super) fn hint(text: impl Into<String>) -> Message {
    marked(Message::user(text.into()), HINT)
}

/// Makes what stands for the conversation so far without its last messages, `spared` in number.
pub(super) fn summary(text: impl Into<String>, spared: usize) -> Message {
    let text = format!("Summary of the conversation so far:\n{}", text.into());
    let marks = [(HINT.to_owned(), Value::Bool(true)), (SUMMARY.to_owned(), Value::from(spared))];
    Message::user(text).with_metadata(Map::from_iter(marks))
}

/// Of a summary, how many messages right before it are no part of what it stands for.
pub(crate) fn summarised(message: &Message) -> Option<usize> {
    let spared = message.metadata_value(SUMMARY).filter(|_| is_hint(message));
    spared?.as_u64()?.try_into().ok()
}

/// Makes what tells the results of calls from synchronous code; `results` is for the view, which puts them into their places.
pub(crate) fn queue_note(text: impl Into<String>, results: Value) -> Message {
    let marks = [(HINT.to_owned(), Value::Bool(true)), (QUEUED.to_owned(), results)];
    Message::user(text.into()).with_metadata(Map::from_iter(marks))
}

/// The results that a message tells of.
pub(crate) fn queued_in(message: &Message) -> Option<&Value> {
    message.metadata_value(QUEUED).filter(|_| is_hint(message))
}

/// Makes what tells the model of an agent that it goes on in the place of another one.
pub(super) fn handed(agent: &str, text: impl Into<String>) -> Message {
    let marks = [(HINT.to_owned(), Value::Bool(true)), (HANDED.to_owned(), Value::from(agent))];
    Message::user(text.into()).with_metadata(Map::from_iter(marks))
}

/// The agent that goes on from this message.
pub(crate) fn handed_to(message: &Message) -> Option<&str> {
    message.metadata_value(HANDED).filter(|_| is_hint(message))?.as_str()
}

/// Notes that a reply asks back what is wanted.
pub(crate) fn clarification(question: Message) -> Message {
    marked(question, CLARIFICATION)
}

pub(crate) fn is_clarification(message: &Message) -> bool {
    is_marked(message, CLARIFICATION)
}

/// Notes that a reply is neither calls nor an answer.
pub(super) fn unusable(reply: Message) -> Message {
    marked(reply, UNUSABLE)
}

/// Notes that a reply is an answer that was not taken.
pub(super) fn rejected(reply: Message) -> Message {
    let marks = [UNUSABLE, REJECTED].map(|key| (key.to_owned(), Value::Bool(true)));
    reply.with_metadata(Map::from_iter(marks))
}

/// Whether a reply is an answer that was not taken.
pub(crate) fn is_rejected(message: &Message) -> bool {
    is_marked(message, REJECTED)
}

/// Whether a message was said by a run and not by a person: a hint to the model about its last reply.
///
/// Programs that show a conversation will want to leave it out.
pub fn is_hint(message: &Message) -> bool {
    is_marked(message, HINT)
}

/// Whether a message is a reply that was neither calls nor an answer that could be taken: what follows is a
/// [hint](is_hint), or the end of a run that failed.
pub fn is_unusable(message: &Message) -> bool {
    is_marked(message, UNUSABLE)
}

fn marked(message: Message, key: &str) -> Message {
    message.with_metadata(Map::from_iter([(key.to_owned(), Value::Bool(true))]))
}

fn is_marked(message: &Message, key: &str) -> bool {
    message.metadata_value(key) == Some(&Value::Bool(true))
}
