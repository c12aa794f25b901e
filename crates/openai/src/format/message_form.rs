use std::sync::Arc;

use haft_core::{
    Message,
    message::MessageBody,
    model::{CallIds, KeptIds},
};

/// The parts of the encoded form of a message that depend on the messages around it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MessageForm {
    /// `true` if the message is a result whose call id is sent unchanged: see [`KeptIds`].
    pub(crate) is_id_kept: bool,
    /// `true` if the message ends with a cache breakpoint.
    pub(crate) is_marked: bool,
}

impl MessageForm {
    /// Returns each message with its form.
    pub(crate) fn of_messages<'a>(
        messages: &[&'a Arc<Message>],
        call_ids: &CallIds,
    ) -> impl Iterator<Item = (&'a Arc<Message>, Self)> {
        let mut kept = KeptIds::default();
        let marked = marked_positions(messages);
        messages.iter().enumerate().map(move |(index, message)| {
            let is_marked = marked.contains(&Some(index));
            (*message, Self { is_id_kept: kept.advance(message, call_ids), is_marked })
        })
    }
}

/// Returns the positions of the messages that end with a cache breakpoint: the system messages at
/// the beginning, the first message after them, and the end of the previous request of the
/// conversation, which is the last message before the latest reply. OpenAI writes three marks of a
/// request, and its end.
fn marked_positions(messages: &[&Arc<Message>]) -> [Option<usize>; 3] {
    let is_system = |message: &&&Arc<Message>| matches!(message.body(), MessageBody::System { .. });
    let is_reply = |message: &Arc<Message>| matches!(message.body(), MessageBody::Assistant(_));
    let systems = messages.iter().take_while(is_system).count();
    let first = messages.get(systems).filter(|first| !is_reply(first)).map(|_| systems);
    let reply = messages.iter().rposition(|message| is_reply(message)).unwrap_or(0);
    let earlier = messages.get(..reply).unwrap_or_default();
    let previous_end = earlier.iter().rposition(|message| !is_reply(message));
    [systems.checked_sub(1), first, previous_end]
}
