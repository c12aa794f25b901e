//! The end of a run.

use std::mem;

use haft_core::{
    agent::{RunAnswer, Steps, StopReason},
    content::Content,
    message::{AssistantMessage, MessageBody},
};
use serde_json::Value;

use super::{Output, Phase, Run, steps};

impl Run {
    /// The whole of an answer, from what it is where that is not what the model said last.
    pub(super) fn answer(&self, stop_reason: StopReason, output: Option<&Output>) -> RunAnswer {
        let (messages, head) = (self.transcript.messages(), &self.head);
        let Output { text, outputs, .. } = match (output, messages.last().map(|message| message.body())) {
            (Some(output), _) => output.clone(),
            (None, Some(MessageBody::Assistant(said))) => self.output(said, stop_reason),
            (None, _) => Output::none(stop_reason),
        };
        RunAnswer {
            text,
            outputs,
            steps: self.steps(),
            usage: head.usage,
            stop_reason,
            agent: None,
            transcript: self.transcript.clone(),
        }
    }

    /// The calls of the run, found in the conversation once somebody looks.
    fn steps(&self) -> Steps {
        let (transcript, start) = (self.transcript.clone(), self.head.start);
        Steps::lazy(move || steps(transcript.messages().get(start..).unwrap_or_default()))
    }

    /// Ends with what a tool gave, once it is checked.
    pub(super) fn end_by_tool(&mut self) {
        let Some(message) = self.head.ended_by.take().and_then(|place| self.transcript.messages().get(place))
        else {
            return;
        };
        let MessageBody::Tool(result) = message.body() else { return };
        let Some(result) = result.output() else { return };
        let outputs = result.structured.as_ref().and_then(Value::as_object).cloned().unwrap_or_default();
        let text = result.text().into_owned();
        // Held against what is declared as it is then: a placeholder is a text, whatever stands in its place.
        let mut output = Box::new(self.filled(Output { text, outputs, stop_reason: StopReason::Tool }));
        if let Some(declared) = &self.head.config.outputs {
            let outputs = Value::Object(mem::take(&mut output.outputs));
            if let (true, Value::Object(outputs)) = (declared.is_valid(&outputs), outputs) {
                output.outputs = outputs;
            }
        }
        self.head.phase = if self.head.config.check_outputs {
            Phase::Checking { output, said: None }
        } else {
            Phase::Answered { stop_reason: StopReason::Tool, output: Some(output) }
        };
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
