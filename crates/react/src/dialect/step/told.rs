//! What a watcher is told of a reply, while it comes.

use std::mem;

use haft_core::{Schema, model::ChatResponse};

use super::{super::Delta, Form, fold};

const SEPARATOR: &str = "\n\n";

/// What the server takes as thinking, and what the model calls a thought.
pub(super) fn joined(reasoning: &str, thought: &str) -> String {
    [reasoning, thought].join(SEPARATOR)
}

/// What a watcher was told of a reply, and is told next.
#[derive(Default)]
pub(in super::super) struct Told {
    thought: Words,
    answer: Words,
    /// Whether the thought of the step has begun, behind the reasoning.
    has_step: bool,
}

impl Told {
    /// Takes more of what the server takes as thinking.
    pub(in super::super) fn reasoning(&mut self, text: &str) {
        // Where it comes behind the thought, the end of the reply would tell another order.
        if !self.has_step {
            self.thought.push(text);
        }
    }

    /// Takes more of the thought of the step.
    pub(in super::super) fn thought(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        if !mem::replace(&mut self.has_step, true) && !self.thought.all.is_empty() {
            self.thought.push(SEPARATOR);
        }
        self.thought.push(text);
    }

    /// Takes more of the answer.
    pub(in super::super) fn answer(&mut self, text: &str) {
        self.answer.push(text);
    }

    /// Takes what was not heard of the whole reply, because it has not quite the form that was asked for.
    pub(in super::super) fn rest<F: Form>(&mut self, response: &ChatResponse, outputs: Option<&Schema>) {
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

    /// What was not told yet.
    pub(in super::super) fn deltas(&mut self) -> Vec<Delta> {
        let deltas = [
            Delta::Thought(mem::take(&mut self.thought.untold)),
            Delta::Text(mem::take(&mut self.answer.untold)),
        ];
        deltas.into_iter().filter(|delta| !delta.is_empty()).collect()
    }
}

/// Words, of which some were told.
#[derive(Default)]
struct Words {
    all: String,
    untold: String,
}

impl Words {
    fn push(&mut self, text: &str) {
        self.all.push_str(text);
        self.untold.push_str(text);
    }

    fn complete(&mut self, all: &str) {
        if let Some(rest) = all.strip_prefix(self.all.as_str()) {
            self.push(rest);
        }
    }
}
