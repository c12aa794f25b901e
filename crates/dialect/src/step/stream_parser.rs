//! The parser of streamed steps.

use haft_core::{Schema, model::ChatEvent};

use super::{DeltaBuffer, StepFormat, ThoughtSource};
use crate::{ReplyDelta, StreamParser};

/// An incremental parser of the text of one streamed step.
pub(crate) trait StepScanner: Default + Send {
    /// Parses `text`, the next piece of the reply, and adds the thought, the answer and the call to
    /// `deltas`. `is_end` is `true` for the last piece. `outputs` is the schema of the answer, if
    /// the answer is structured.
    fn push(&mut self, text: &str, is_end: bool, outputs: Option<&Schema>, deltas: &mut DeltaBuffer);
}

/// The streaming parser of a dialect with the step format `F`, for one reply. Text that is
/// ambiguous during the stream is emitted at the end of the reply.
pub(crate) struct StepStreamParser<F: StepFormat> {
    scanner: F::Scanner,
    deltas: DeltaBuffer,
    /// The schema of the answer, or `None` if the answer is plain text.
    outputs: Option<Schema>,
}

impl<F: StepFormat> StepStreamParser<F> {
    pub(crate) fn new(outputs: Option<&Schema>) -> Self {
        Self { scanner: F::Scanner::default(), deltas: DeltaBuffer::default(), outputs: outputs.cloned() }
    }
}

impl<F: StepFormat> StreamParser for StepStreamParser<F> {
    fn push(&mut self, event: &ChatEvent) -> Vec<ReplyDelta> {
        let Self { scanner, deltas, outputs } = self;
        let outputs = outputs.as_ref();
        match event {
            ChatEvent::TextDelta { text } => {
                let text = deltas.split_thinking(text);
                scanner.push(&text, false, outputs, deltas);
            }
            ChatEvent::ReasoningDelta { text } => deltas.push_thought(ThoughtSource::Reasoning, text),
            ChatEvent::Finished(response) => {
                let text = deltas.finish_thinking();
                scanner.push(&text, true, outputs, deltas);
                deltas.complete::<F>(response, outputs);
            }
            _ => {}
        }
        deltas.take()
    }
}
