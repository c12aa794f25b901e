//! Segments of a conversation: ranges of messages that a model request contains or omits as a
//! whole.

use std::{ops::Range, sync::Arc};

use haft_core::{Message, message::MessageBody};

use super::marks::{is_hint, replaced_offset, unsummarized_count};

/// Splits the messages in `range` into steps. A step is a reply with calls and all messages up to
/// the next reply with calls. Messages before the first reply with calls belong to the first step.
pub(crate) fn steps(messages: &[Arc<Message>], range: Range<usize>) -> Vec<Range<usize>> {
    let calls = |index: &usize| messages.get(*index).is_some_and(|message| !message.tool_calls().is_empty());
    split(range.clone(), range.filter(calls).skip(1))
}

/// Splits the messages in `range` into turns. A turn begins with a user message that does not
/// follow another user message. If `range` begins inside a turn, the first range is the rest of
/// this turn.
pub(crate) fn turns(messages: &[Arc<Message>], range: Range<usize>) -> Vec<Range<usize>> {
    let is_user = |index: usize| messages.get(index).is_some_and(|message| is_from_user(message));
    let begins = |index: &usize| is_user(*index) && !is_user(index.saturating_sub(1));
    split(range.clone(), range.skip(1).filter(begins))
}

/// Splits `range` into subranges that contain no summaries, since the latest summary is sent
/// separately, and no notes with the replaced content of a message.
pub(crate) fn without_notes(
    messages: &[Arc<Message>],
    range: Range<usize>,
) -> impl Iterator<Item = Range<usize>> {
    let is_note =
        |message: &Message| unsummarized_count(message).is_some() || replaced_offset(message).is_some();
    let is_omitted = move |index: usize| messages.get(index).is_some_and(|message| is_note(message));
    let ends = range.clone().filter(move |index| is_omitted(*index)).chain([range.end]);
    ends.scan(range.start, |from, end| Some(std::mem::replace(from, end + 1)..end))
        .filter(|it| !it.is_empty())
}

/// Returns `true` if `message` is from a user. [Hints](super::is_hint) of a run have the user role
/// as well, but are not from a user.
pub fn is_from_user(message: &Message) -> bool {
    matches!(message.body(), MessageBody::User { .. }) && !is_hint(message)
}

/// Splits `range` before each index in `begins`. Omits empty subranges.
fn split(range: Range<usize>, begins: impl Iterator<Item = usize>) -> Vec<Range<usize>> {
    let ends = begins.chain([range.end]);
    let segments = ends.scan(range.start, |from, end| Some(std::mem::replace(from, end)..end));
    segments.filter(|segment| !segment.is_empty()).collect()
}
