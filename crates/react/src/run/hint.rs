use haft_core::{Message, Value};
use serde_json::Map;

/// The key in the metadata of a message that a run, and no person, said to the model.
const HINT: &str = "hint";

/// Makes what a run tells the model by itself: what is wrong with a reply, or that it must answer now.
pub(super) fn hint(text: impl Into<String>) -> Message {
    let metadata = Map::from_iter([(HINT.to_owned(), Value::Bool(true))]);
    Message::user(text.into()).with_metadata(metadata)
}

/// Whether a message was said by a run and not by a person: a hint to the model about its last reply.
///
/// Programs that show a conversation will want to leave it out.
pub fn is_hint(message: &Message) -> bool {
    message.metadata().get(HINT) == Some(&Value::Bool(true))
}
