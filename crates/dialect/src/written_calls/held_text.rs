//! Holds back the start of a streamed reply while it can become a written call.

use std::mem;

use haft_core::{model::ChatEvent, text::ThinkTagParser};

use super::{
    CallableNames, MAX_TEXT_BYTES, parse_calls,
    prefix::{Prefix, classify},
};
use crate::{ReplyDelta, StreamParser};

/// A stream parser that holds back the start of a reply while it can become a written call. The
/// other deltas are those of `inner`.
pub(crate) struct HeldTextParser {
    inner: Box<dyn StreamParser>,
    names: CallableNames,
    held: String,
    think_tags: ThinkTagParser,
    /// The part of the held text after the `<think>` block.
    reply: String,
    /// The class of `reply`. The text is streamed after [`Prefix::Prose`], and held back until the
    /// end of the reply after [`Prefix::Call`].
    prefix: Prefix,
}

impl HeldTextParser {
    pub(crate) fn new(inner: Box<dyn StreamParser>, names: CallableNames) -> Self {
        let (held, reply, think_tags) = (String::new(), String::new(), ThinkTagParser::default());
        Self { inner, names, held, think_tags, reply, prefix: Prefix::Undecided }
    }

    /// Holds back `text`, the next piece of the reply. Releases the held text if it cannot become
    /// calls.
    fn hold(&mut self, text: &str) -> Vec<ReplyDelta> {
        self.held.push_str(text);
        if self.prefix != Prefix::Call {
            self.reply.push_str(&self.think_tags.push(text.to_owned()).text);
            let is_reasoning = self.prefix == Prefix::Reasoning && !text.contains('>');
            if !self.think_tags.is_inside() && !is_reasoning {
                self.prefix = classify(&self.reply, &self.names);
            }
        }
        let is_released = self.prefix == Prefix::Prose || self.held.len() > MAX_TEXT_BYTES;
        if is_released { self.release() } else { Vec::new() }
    }

    fn release(&mut self) -> Vec<ReplyDelta> {
        self.prefix = Prefix::Prose;
        self.reply = String::new();
        let text = mem::take(&mut self.held);
        if text.is_empty() { Vec::new() } else { self.inner.push(&ChatEvent::TextDelta { text }) }
    }
}

impl StreamParser for HeldTextParser {
    fn push(&mut self, event: &ChatEvent) -> Vec<ReplyDelta> {
        let mut deltas = match event {
            _ if self.prefix == Prefix::Prose => Vec::new(),
            ChatEvent::TextDelta { text } => return self.hold(text),
            ChatEvent::Finished(response) => {
                if parse_calls(&response.message.text(), &self.names).is_some() {
                    self.held.clear();
                }
                self.release()
            }
            // A reply with native calls contains no written calls.
            ChatEvent::ToolCallStarted { .. } => self.release(),
            _ => Vec::new(),
        };
        deltas.extend(self.inner.push(event));
        deltas
    }
}
