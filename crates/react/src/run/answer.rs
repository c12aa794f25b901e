//! The end of a run.

use haft_core::{AssistantMessage, Content, MessageBody, RunAnswer, StopReason};

use super::{Output, Run, steps};

impl Run {
    /// The whole of an answer, from what it is where that is not what the model said last.
    pub(super) fn answer(&self, stop_reason: StopReason, output: Option<&Output>) -> RunAnswer {
        let (messages, head) = (self.transcript.messages(), &self.head);
        let Output { text, outputs, .. } = match (output, messages.last().map(|message| message.body())) {
            (Some(output), _) => output.clone(),
            (None, Some(MessageBody::Assistant(said))) => self.output(said, stop_reason),
            (None, _) => Output::new(stop_reason),
        };
        RunAnswer {
            text,
            outputs,
            steps: steps(messages.get(head.start..).unwrap_or_default()),
            usage: head.usage,
            stop_reason,
            transcript: self.transcript.clone(),
        }
    }

    /// The answer that a model gives with these words.
    pub(super) fn output(&self, said: &AssistantMessage, stop_reason: StopReason) -> Output {
        let outputs = match (&said.refusal, said.content.as_slice()) {
            (None, [Content::Json { value }]) if self.head.config.outputs.is_some() => value.as_object(),
            _ => None,
        };
        Output {
            text: said.refusal.clone().unwrap_or_else(|| said.text()),
            outputs: outputs.cloned().unwrap_or_default(),
            stop_reason,
        }
    }
}
