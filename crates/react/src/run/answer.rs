//! Construction of the output and the answer of a run. The output comes from a message of the model
//! or from a stop tool.

use std::mem;

use haft_core::{
    agent::{AgentErrorKind, RunAnswer, StopReason},
    content::Content,
    message::{AssistantMessage, MessageBody},
};
use serde_json::Value;

use super::{
    Effect, Output, Run, Step, agent_steps,
    state::{RequestPurpose, State},
};

impl Run {
    /// Builds the answer from `output`, or from the last message of the transcript if `output` is
    /// `None`.
    pub(super) fn build_answer(&self, stop_reason: StopReason, output: Option<&Output>) -> RunAnswer {
        let last = self.transcript.messages().last().map(|message| message.body());
        let Output { text, outputs, .. } = match (output, last) {
            (Some(output), _) => output.clone(),
            (None, Some(MessageBody::Assistant(message))) => self.output_of(message, stop_reason),
            (None, _) => Output::empty(stop_reason),
        };
        RunAnswer {
            text,
            outputs,
            steps: agent_steps(self.transcript.messages().get(self.head.first_message..).unwrap_or_default()),
            usage: self.head.usage,
            stop_reason,
            agent: None,
            transcript: self.transcript.clone(),
        }
    }

    /// Uses the tool result at the transcript index `index` as the output of the run. If the run
    /// has added calls, only starts these calls: `advance` calls this function again after they are
    /// finished. Always returns `None` on success, since no effect is needed.
    pub(super) fn stop_with_result(
        &mut self,
        index: usize,
        step: &Step<'_>,
    ) -> Result<Option<Effect>, AgentErrorKind> {
        if self.start_added_calls(step.resolver)? {
            return Ok(None);
        }
        let message = self.transcript.messages().get(index).map(|message| message.body());
        let result = match message {
            Some(MessageBody::Tool(result)) => result.output(),
            _ => None,
        };
        let data = result.and_then(|result| result.structured.as_ref()).and_then(Value::as_object);
        let output = Output {
            text: result.map(|result| result.text().into_owned()).unwrap_or_default(),
            outputs: data.cloned().unwrap_or_default(),
            stop_reason: StopReason::Tool,
        };
        // Resolve placeholders before the validation: a placeholder is a string, but the result
        // that replaces it may have another type.
        let mut output = Box::new(self.resolve_output(output, step.resolver));
        if let Some(declared) = &self.head.config.outputs {
            let outputs = Value::Object(mem::take(&mut output.outputs));
            if let (true, Value::Object(outputs)) = (declared.is_valid(&outputs), outputs) {
                output.outputs = outputs;
            }
        }
        self.head.state.stop_with_output(if self.head.config.check_outputs {
            State::CheckingOutput { purpose: RequestPurpose::Step, output, message: None }
        } else {
            State::finishing(StopReason::Tool, Some(output))
        });
        Ok(None)
    }

    /// Converts `message` to an output. The output has structured data if the run declares outputs,
    /// and `message` is not a refusal and contains only a JSON object.
    pub(super) fn output_of(&self, message: &AssistantMessage, stop_reason: StopReason) -> Output {
        let outputs = match (&message.refusal, message.content.as_slice()) {
            (None, [Content::Json { value }]) if self.head.config.outputs.is_some() => value.as_object(),
            _ => None,
        };
        Output {
            text: message.refusal.clone().unwrap_or_else(|| message.text()),
            outputs: outputs.cloned().unwrap_or_default(),
            stop_reason,
        }
    }
}
