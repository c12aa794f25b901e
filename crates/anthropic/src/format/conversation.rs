use std::sync::Arc;

use haft_core::{Message, message::MessageBody, model::KeptIds};
use serde::{Serialize, Serializer, ser::SerializeSeq as _};
use serde_json::value::RawValue;

use super::{
    EncodingOptions,
    block::{Block, BlockKind, write_list},
    message::{EncodedMessage, Part, SystemBlock},
};

/// The `system` and `messages` fields of a request. The blocks of each message are cached in the
/// message.
pub(crate) struct Conversation {
    system: Vec<Arc<SystemBlock>>,
    messages: Vec<MergedMessage>,
}

/// Adjacent messages of one role. The API requires the results of all calls of a reply in one
/// message, before other content.
struct MergedMessage {
    role: Role,
    results: Vec<Arc<EncodedMessage>>,
    others: Vec<Arc<EncodedMessage>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Role {
    User,
    Assistant,
}

impl Conversation {
    /// Encodes `messages`. System messages before the first other message become the `system` field,
    /// and a later one becomes a user message.
    pub(crate) fn new<'a>(
        messages: impl IntoIterator<Item = &'a Arc<Message>>,
        options: &Arc<EncodingOptions>,
    ) -> Self {
        let mut conversation = Self { system: Vec::new(), messages: Vec::new() };
        let (mut kept, mut has_begun) = (KeptIds::default(), false);
        for message in messages {
            if !has_begun && matches!(message.body(), MessageBody::System { .. }) {
                conversation.system.push(SystemBlock::of(message));
                continue;
            }
            has_begun = true;
            let is_id_kept = kept.advance(message, &options.call_ids);
            conversation.push(EncodedMessage::of(message, options, is_id_kept));
        }
        conversation
    }

    /// Adds `message`, unless it has no blocks: the API rejects empty messages.
    fn push(&mut self, message: Arc<EncodedMessage>) {
        if message.blocks.is_empty() {
            return;
        }
        let role = if message.part == Part::Assistant { Role::Assistant } else { Role::User };
        if self.messages.last().is_none_or(|last| last.role != role) {
            self.messages.push(MergedMessage { role, results: Vec::new(), others: Vec::new() });
        }
        let Some(last) = self.messages.last_mut() else { return };
        if message.part == Part::Result { last.results.push(message) } else { last.others.push(message) }
    }

    /// Returns the blocks of the `system` field.
    pub(crate) fn system(&self) -> impl Iterator<Item = &RawValue> {
        self.system.iter().filter_map(|block| block.0.as_ref()).map(Block::json)
    }

    /// Returns the `messages` field. With `cache_control`, a member of a block, the conversation can
    /// be read from the prompt cache.
    pub(crate) fn messages<'a>(&'a self, cache_control: Option<&'a str>) -> Messages<'a> {
        let marked = if cache_control.is_some() { self.cache_breakpoints() } else { Vec::new() };
        Messages { messages: &self.messages, marked, cache_control }
    }

    /// Returns the breakpoints, each as the positions of a message and a block: the end of this
    /// request and the end of the previous one.
    ///
    /// The API looks for an earlier cache entry at most 20 blocks before a breakpoint. A step can add
    /// more blocks, so the end of the previous request gets a breakpoint again.
    fn cache_breakpoints(&self) -> Vec<(usize, usize)> {
        let last = self.messages.len().checked_sub(1);
        let is_user = |place: &usize| self.messages.get(*place).is_some_and(|it| it.role == Role::User);
        let previous = last.and_then(|last| (0..last).rev().find(is_user));
        let breakpoint = |place: usize| Some((place, self.messages.get(place)?.last_cacheable()?));
        [previous, last].into_iter().flatten().filter_map(breakpoint).collect()
    }

    /// Returns `true` if the results at the end answer a reply without thinking, for example one of
    /// another provider. The API rejects manual thinking in this case.
    #[cfg(feature = "client")]
    pub(crate) fn continues_unthought_calls(&self) -> bool {
        let reply = self.messages.iter().rev().find(|message| message.role == Role::Assistant);
        reply.is_some_and(|reply| {
            let has_calls = reply.blocks().any(|block| block.kind() == BlockKind::Call);
            has_calls && reply.blocks().next().is_none_or(|block| block.kind() != BlockKind::Thinking)
        })
    }
}

impl MergedMessage {
    fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.results.iter().chain(&self.others).flat_map(|message| &message.blocks)
    }

    /// Returns the position of the last block that can have a breakpoint.
    fn last_cacheable(&self) -> Option<usize> {
        let kinds: Vec<_> = self.blocks().map(Block::kind).collect();
        kinds.iter().rposition(|kind| *kind != BlockKind::Thinking)
    }
}

/// The `messages` field of a request.
pub(crate) struct Messages<'a> {
    messages: &'a [MergedMessage],
    marked: Vec<(usize, usize)>,
    cache_control: Option<&'a str>,
}

impl Serialize for Messages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.messages.len()))?;
        for (place, message) in self.messages.iter().enumerate() {
            let marked = self.marked.iter().find(|(marked, _)| *marked == place).map(|(_, block)| *block);
            let content = MessageContent { message, marked, cache_control: self.cache_control };
            list.serialize_element(&WireMessage { role: message.role, content })?;
        }
        list.end()
    }
}

#[derive(Serialize)]
struct WireMessage<'a> {
    role: Role,
    content: MessageContent<'a>,
}

struct MessageContent<'a> {
    message: &'a MergedMessage,
    marked: Option<usize>,
    cache_control: Option<&'a str>,
}

impl Serialize for MessageContent<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write_list(serializer, self.message.blocks().map(Block::json), self.marked, self.cache_control)
    }
}
