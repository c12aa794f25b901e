//! Buffers the text of a streamed reply until the text is emitted.

use std::mem;

use haft_core::{Schema, model::ChatResponse};

use super::{super::ReplyDelta, StepFormat, parse_reply};

const REASONING_SEPARATOR: &str = "\n\n";

/// Joins `reasoning`, which the server sends in a separate field, and the `thought` of the step.
pub(super) fn join_reasoning(reasoning: &str, thought: &str) -> String {
    [reasoning, thought].join(REASONING_SEPARATOR)
}

/// The thought and the answer of one streamed reply. Both are buffered until they are emitted.
#[derive(Default)]
pub(in super::super) struct DeltaBuffer {
    thought: TextBuffer,
    answer: TextBuffer,
    /// `true` if the thought of the step has begun. Reasoning that arrives later is dropped.
    has_step_thought: bool,
}

impl DeltaBuffer {
    /// Appends `text`, reasoning that the server sends in a separate field, to the thought.
    pub(in super::super) fn push_reasoning(&mut self, text: &str) {
        // The complete reply contains the reasoning before the thought. Reasoning that arrives
        // after the thought would be emitted in the wrong order, so it is dropped.
        if !self.has_step_thought {
            self.thought.push(text);
        }
    }

    /// Appends `text` to the thought of the step.
    pub(in super::super) fn push_thought(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        if !mem::replace(&mut self.has_step_thought, true) && !self.thought.all.is_empty() {
            self.thought.push(REASONING_SEPARATOR);
        }
        self.thought.push(text);
    }

    /// Appends `text` to the answer.
    pub(in super::super) fn push_answer(&mut self, text: &str) {
        self.answer.push(text);
    }

    /// Appends the text of the complete reply that could not be streamed, for example because the
    /// keys of the step were in an unusual order. Does nothing if the reply is rejected.
    pub(in super::super) fn complete<F: StepFormat>(
        &mut self,
        response: &ChatResponse,
        outputs: Option<&Schema>,
    ) {
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
    pub(in super::super) fn take(&mut self) -> Vec<ReplyDelta> {
        let deltas = [
            ReplyDelta::Reasoning(mem::take(&mut self.thought.pending)),
            ReplyDelta::Text(mem::take(&mut self.answer.pending)),
        ];
        deltas.into_iter().filter(|delta| !delta.is_empty()).collect()
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
