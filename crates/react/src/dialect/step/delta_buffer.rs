//! Text of a streamed reply that is not emitted yet.

use std::mem;

use haft_core::{Schema, model::ChatResponse};

use super::{super::Delta, StepFormat, fold};

const SEPARATOR: &str = "\n\n";

/// Joins the reasoning that the server separates from the text and the thought of the step.
pub(super) fn join_reasoning(reasoning: &str, thought: &str) -> String {
    [reasoning, thought].join(SEPARATOR)
}

/// A buffer of the deltas of one reply.
#[derive(Default)]
pub(in super::super) struct DeltaBuffer {
    thought: TextBuffer,
    answer: TextBuffer,
    /// Set after the first text of the step's thought.
    has_step_thought: bool,
}

impl DeltaBuffer {
    /// Appends reasoning that the server separates from the text.
    pub(in super::super) fn push_reasoning(&mut self, text: &str) {
        // The complete reply has the reasoning before the thought. Later reasoning would be emitted
        // in another order, so that it is dropped.
        if !self.has_step_thought {
            self.thought.push(text);
        }
    }

    /// Appends text of the step's thought.
    pub(in super::super) fn push_thought(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        if !mem::replace(&mut self.has_step_thought, true) && !self.thought.all.is_empty() {
            self.thought.push(SEPARATOR);
        }
        self.thought.push(text);
    }

    /// Appends text of the answer.
    pub(in super::super) fn push_answer(&mut self, text: &str) {
        self.answer.push(text);
    }

    /// Appends the text of the complete reply that the listener did not recognise, for example
    /// because the keys of the step were in another order.
    pub(in super::super) fn complete<F: StepFormat>(
        &mut self,
        response: &ChatResponse,
        outputs: Option<&Schema>,
    ) {
        let reply = fold::<F>(response.clone(), outputs);
        if reply.problem.is_some() {
            return;
        }
        let message = reply.message;
        self.thought.complete(message.reasoning.as_deref().unwrap_or_default());
        if message.tool_calls.is_empty() && outputs.is_none() {
            self.answer.complete(&message.text());
        }
    }

    /// Takes the deltas since the last call.
    pub(in super::super) fn take(&mut self) -> Vec<Delta> {
        let deltas = [
            Delta::Thought(mem::take(&mut self.thought.pending)),
            Delta::Text(mem::take(&mut self.answer.pending)),
        ];
        deltas.into_iter().filter(|delta| !delta.is_empty()).collect()
    }
}

/// Text with a part at its end that is not emitted yet.
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

    /// Appends the rest of `all`. Does nothing if the text so far is not its beginning.
    fn complete(&mut self, all: &str) {
        if let Some(rest) = all.strip_prefix(self.all.as_str()) {
            self.push(rest);
        }
    }
}
