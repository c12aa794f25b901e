//! Buffers the text of a streamed reply until the text is emitted.

use std::mem;

use haft_core::{
    Schema,
    model::ChatResponse,
    text::{ThinkSplit, ThinkTagParser},
};

use super::{StepFormat, parse_reply};
use crate::{ReplyDelta, thinking::REASONING_SEPARATOR};

/// The source of a part of the thought, in the order of the sources in the complete reply.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ThoughtSource {
    /// Reasoning that the server sends in a separate field.
    #[default]
    Reasoning,
    /// A `<think>` block in the text.
    ThinkBlock,
    /// The thought of the step.
    Step,
}

/// The thought, the answer and the call of one streamed reply. They are buffered until they are
/// emitted.
#[derive(Default)]
pub(crate) struct DeltaBuffer {
    thought: TextBuffer,
    answer: TextBuffer,
    /// The source of the latest part of the thought.
    source: ThoughtSource,
    think_tags: ThinkTagParser,
    /// The parts of the call and of the structured answer.
    other: Vec<ReplyDelta>,
}

impl DeltaBuffer {
    /// Appends `text` to the thought. A part that arrives after a part from a later source would be
    /// emitted in the wrong order, so it is dropped.
    pub(crate) fn push_thought(&mut self, source: ThoughtSource, text: &str) {
        if text.is_empty() || source < self.source {
            return;
        }
        if source > self.source && !self.thought.all.is_empty() {
            self.thought.push(REASONING_SEPARATOR);
        }
        self.source = source;
        self.thought.push(text);
    }

    /// Returns the part of `text`, the next piece of the reply, that is not in a `<think>` block.
    /// The text in the block becomes part of the thought.
    pub(super) fn split_thinking(&mut self, text: &str) -> String {
        let split = self.think_tags.push(text.to_owned());
        self.push_split(split)
    }

    /// Returns the text that [`split_thinking`](Self::split_thinking) still holds back at the end
    /// of the reply.
    pub(super) fn finish_thinking(&mut self) -> String {
        let split = self.think_tags.finish();
        self.push_split(split)
    }

    fn push_split(&mut self, split: ThinkSplit) -> String {
        self.push_thought(ThoughtSource::ThinkBlock, &split.reasoning);
        split.text
    }

    /// Appends `text` to the answer.
    pub(crate) fn push_answer(&mut self, text: &str) {
        self.answer.push(text);
    }

    /// Appends a part of the call or of the structured answer.
    pub(crate) fn push_delta(&mut self, delta: ReplyDelta) {
        self.other.push(delta);
    }

    /// Appends the text of the complete reply that could not be streamed, for example because the
    /// keys of the step were in an unusual order. Does nothing if the reply is rejected.
    pub(super) fn complete<F: StepFormat>(&mut self, response: &ChatResponse, outputs: Option<&Schema>) {
        let reply = parse_reply::<F>(response.clone(), outputs);
        if reply.problem.is_some() {
            return;
        }
        let message = reply.message;
        self.thought.complete(message.reasoning.as_deref().unwrap_or_default());
        if message.tool_calls.is_empty() && outputs.is_none() {
            self.answer.complete(&message.text());
        }
    }

    /// Removes and returns the text that was appended since the previous `take`.
    pub(super) fn take(&mut self) -> Vec<ReplyDelta> {
        let deltas = [
            ReplyDelta::Reasoning(mem::take(&mut self.thought.pending)),
            ReplyDelta::Text(mem::take(&mut self.answer.pending)),
        ];
        deltas.into_iter().chain(mem::take(&mut self.other)).filter(|delta| !delta.is_empty()).collect()
    }
}

/// The text received so far, and the end of this text that has not been emitted yet.
#[derive(Default)]
struct TextBuffer {
    all: String,
    pending: String,
}

impl TextBuffer {
    fn push(&mut self, text: &str) {
        self.all.push_str(text);
        self.pending.push_str(text);
    }

    /// Appends the missing end of the complete text `all`. Does nothing if `all` does not start
    /// with the text received so far.
    fn complete(&mut self, all: &str) {
        if let Some(rest) = all.strip_prefix(self.all.as_str()) {
            self.push(rest);
        }
    }
}
