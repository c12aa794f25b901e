//! Construction of the output and the answer of a run. The output comes from a message of the model
//! or from a stop tool.

use std::{mem, sync::Arc};

use haft_core::{
    Message,
    agent::{AgentStep, RunAnswer, StopReason},
    content::Content,
    message::{AssistantMessage, MessageBody},
    schema::parse_json,
};
use serde_json::{Map, Value};

use super::{
    Output, Run, agent_steps,
    output::split_object,
    output_schema::value_text,
    parse_answer::parse_answer,
    state::{RequestPurpose, State},
};
use crate::dialect::Reply;

impl Run {
    /// Builds the answer from `output`, or from the last message of the transcript if `output` is
    /// `None`.
    pub(super) fn build_answer(&self, stop_reason: StopReason, output: Option<&Output>) -> RunAnswer {
        let last = self.transcript.messages().last().map(|message| message.body());
        let Output { text, outputs, value, .. } = match (output, last) {
            (Some(output), _) => output.clone(),
            (None, Some(MessageBody::Assistant(message))) => self.output_of(message, stop_reason),
            (None, _) => Output::empty(stop_reason),
        };
        RunAnswer {
            text,
            outputs,
            value,
            steps: self.steps(),
            usage: self.head.usage,
            stop_reason,
            agent: None,
            guardrails: self.head.guardrails.clone(),
            transcript: self.transcript.clone(),
        }
    }

    /// Returns the structured output that the model wrote as text or as a bare value in `reply`,
    /// the reply to the request in flight. `None` if the dialect has already parsed the output as
    /// an object, or if there is no valid output.
    ///
    /// The deltas of a [`StreamParser`](crate::dialect::StreamParser) contain this output only as
    /// text. A driver emits it as [`RunEvent::PartialOutput`](haft_core::RunEvent::PartialOutput)
    /// when the reply is complete.
    pub fn written_output(&self, reply: &Reply) -> Option<Value> {
        let Reply { message, finish_reason, problem, .. } = reply;
        let is_answer = message.tool_calls.is_empty() && message.refusal.is_none() && problem.is_none();
        let is_parsed = match message.content.as_slice() {
            [] => true,
            [Content::Json { value }] => value.is_object(),
            _ => false,
        };
        if finish_reason.is_cut() || !is_answer || is_parsed {
            return None;
        }
        parse_answer(&self.head.config, self.outputs()?, &message.content).ok()
    }

    /// Returns the calls of this run with their results, without calls that give the outputs.
    fn steps(&self) -> Vec<AgentStep> {
        self.tool_steps(self.transcript.messages().get(self.head.first_message..).unwrap_or_default())
    }

    /// Returns the calls in `messages` with their results, without calls that give the outputs.
    pub(super) fn tool_steps(&self, messages: &[Arc<Message>]) -> Vec<AgentStep> {
        let mut steps = agent_steps(messages);
        steps.retain(|step| !self.head.answer_calls.contains(&step.result.call_id));
        steps
    }

    /// Uses the tool result at the transcript index `index` as the output of the run.
    pub(super) fn stop_with_result(&mut self, index: usize, purpose: RequestPurpose) {
        if let Some(output) = self.output_of_answer_call(index, purpose) {
            // The call is in the reply before the first result.
            let is_reply = |message: &Arc<Message>| !message.tool_calls().is_empty();
            let earlier = self.transcript.messages().get(..index).unwrap_or_default();
            let reply = earlier.iter().rposition(is_reply);
            let next = self.end_with_output(Box::new(output), purpose, Vec::from_iter(reply));
            return self.head.state.stop_with_output(next);
        }
        let message = self.transcript.messages().get(index).map(|message| message.body());
        let result = match message {
            Some(MessageBody::Tool(result)) => result.output(),
            _ => None,
        };
        let (value, outputs) = split_object(result.and_then(|result| result.structured.clone()));
        let text = result.map(|result| result.text().into_owned()).unwrap_or_default();
        let output = Output { text, outputs, value, ..Output::empty(StopReason::Tool) };
        let next = self.stop_with_output(Box::new(output), vec![index]);
        self.head.state.stop_with_output(next);
    }

    /// Returns the state of a run that ends with `output`, the output of tools or of a review.
    /// `sources` are the transcript indices of the results with the output. Structured data that
    /// does not fit the declared schema is removed.
    pub(super) fn stop_with_output(&self, mut output: Box<Output>, sources: Vec<usize>) -> State {
        if self.head.config.outputs.is_some() {
            (output.value, output.outputs) = self.declared_outputs_of(&mut output);
        }
        self.end_with_output(output, RequestPurpose::Step, sources)
    }

    /// Returns the state of a run that ends with `output`, after a request with this `purpose`.
    /// `sources` are the transcript indices of the messages that contain the output.
    fn end_with_output(&self, output: Box<Output>, purpose: RequestPurpose, sources: Vec<usize>) -> State {
        if self.head.config.check_outputs {
            State::CheckingOutput { purpose, output, message: None, sources }
        } else {
            State::finishing(output.stop_reason, Some(output))
        }
    }

    /// Returns the output that a call to `finish` gave beside other calls. `index` is the
    /// transcript index of the result of this call. `None` if the result is the result of another
    /// tool.
    fn output_of_answer_call(&self, index: usize, purpose: RequestPurpose) -> Option<Output> {
        let schema = self.head.config.outputs.as_ref()?;
        let earlier = self.transcript.messages().get(..=index)?;
        let MessageBody::Tool(result) = earlier.last()?.body() else { return None };
        let calls = earlier.iter().rev().flat_map(|message| message.tool_calls());
        let is_answer = self.head.answer_calls.contains(&result.call_id);
        let call = calls.into_iter().find(|call| is_answer && call.id == result.call_id)?;
        let outputs = self.parse_answer_call(schema, call).ok()?;
        let message =
            AssistantMessage { content: vec![Content::Json { value: outputs }], ..Default::default() };
        Some(self.output_of(&message, purpose.stop_reason()))
    }

    /// Converts `message` to an output. The output has structured data if the run declares outputs,
    /// and `message` is not a refusal and contains only a JSON object.
    pub(super) fn output_of(&self, message: &AssistantMessage, stop_reason: StopReason) -> Output {
        let outputs = match (&message.refusal, message.content.as_slice()) {
            (None, [Content::Json { value }]) if self.head.config.outputs.is_some() => value.as_object(),
            _ => None,
        };
        let (value, outputs) = self.head.config.split_outputs(outputs.cloned().unwrap_or_default());
        let text = match (&message.refusal, &value) {
            (Some(refusal), _) => refusal.clone(),
            (None, Some(value)) => value_text(value),
            (None, None) => message.text(),
        };
        Output { text, outputs, value, ..Output::empty(stop_reason) }
    }

    /// Takes the structured data of `output`, the result of a stop tool, if it is valid for the
    /// declared outputs. If the declared output is not an object, the result can also be its text,
    /// such as `42` for a number.
    fn declared_outputs_of(&self, output: &mut Output) -> (Option<Value>, Map<String, Value>) {
        let config = &self.head.config;
        let is_declared = |outputs: &Value| config.outputs.as_ref().is_some_and(|it| it.is_valid(outputs));
        let (value, outputs) = (output.value.take(), mem::take(&mut output.outputs));
        let candidates: Vec<_> = match (&config.output_property, value) {
            (None, _) => vec![(None, outputs)],
            (Some(_), Some(value)) => vec![(Some(value), Map::new())],
            (Some(_), None) if outputs.is_empty() => {
                let values = [parse_json(&output.text).ok(), Some(output.text.as_str().into())];
                values.into_iter().flatten().map(|value| (Some(value), Map::new())).collect()
            }
            (Some(_), None) => vec![(Some(Value::Object(outputs)), Map::new())],
        };
        let is_valid = |(value, outputs): &(Option<Value>, Map<String, Value>)| {
            is_declared(&config.join_outputs(value.clone(), outputs.clone()))
        };
        candidates.into_iter().find(is_valid).unwrap_or_default()
    }
}
