//! What the pieces of a conversation are, which are shown or left out whole.

use std::{ops::Range, sync::Arc};

use haft_core::{Message, message::MessageBody};

use super::mark::{is_hint, queued_in, summarised};

/// The steps among the messages in `range`. A step is a reply with calls, with all that follows until the next such reply: their
/// results, and what was said without a call. What stands before the first belongs to it.
pub(super) fn steps(messages: &[Arc<Message>], range: Range<usize>) -> Vec<Range<usize>> {
    let calls = |index: &usize| messages.get(*index).is_some_and(|message| !message.tool_calls().is_empty());
    split(range.clone(), range.filter(calls).skip(1))
}

/// The turns among the messages in `range`. A turn begins with what a person says to a reply; the first may be the rest of one.
pub(super) fn turns(messages: &[Arc<Message>], range: Range<usize>) -> Vec<Range<usize>> {
    let says = |index: usize| messages.get(index).is_some_and(|message| is_said(message));
    let begins = |index: &usize| says(*index) && !says(index.saturating_sub(1));
    split(range.clone(), range.skip(1).filter(begins))
}

/// The parts of `range` that are no summaries, and no results that stand elsewhere.
pub(super) fn without_notes(
    messages: &[Arc<Message>],
    range: Range<usize>,
) -> impl Iterator<Item = Range<usize>> {
    let is_note = |message: &Message| summarised(message).is_some() || queued_in(message).is_some();
    let is_left_out = move |index: usize| messages.get(index).is_some_and(|message| is_note(message));
    let ends = range.clone().filter(move |index| is_left_out(*index)).chain([range.end]);
    ends.scan(range.start, |from, end| Some(std::mem::replace(from, end + 1)..end))
        .filter(|it| !it.is_empty())
}

/// Whether a person said it.
pub(crate) fn is_said(message: &Message) -> bool {
    matches!(message.body(), MessageBody::User { .. }) && !is_hint(message)
}

fn split(range: Range<usize>, begins: impl Iterator<Item = usize>) -> Vec<Range<usize>> {
    let ends = begins.chain([range.end]);
    let pieces = ends.scan(range.start, |from, end| Some(std::mem::replace(from, end)..end));
    pieces.filter(|piece| !piece.is_empty()).collect()
}
