//! The answer of a run: the state `Ended`.

use std::{mem, ops::Range, sync::Arc};

use haft_core::{
    Message,
    agent::{AgentErrorKind, AgentStep, RunAnswer, StopReason},
    call::BoxError,
    content::Content,
    message::{AssistantMessage, MessageBody},
    schema::parse_json,
};
use serde_json::{Map, Value};

use super::{
    Effect, OutputStrategy, Run,
    state::{Answer, Candidate, End, State, Transition},
};
use crate::{
    dialect::Reply,
    output::{Output, parse::parse_answer, schema::value_text, split_object},
    transcript::{marks::mark_extracted, steps::agent_steps},
};

impl Run {
    /// `Ended`: returns the answer, unless enqueued messages continue the run.
    pub(super) fn end_or_continue(&mut self, end: End) -> Transition {
        match end {
            End::Answered { stop_reason, .. } if self.has_follow_up(stop_reason) => {
                self.deliver_all();
                // The answer was accepted, so later rejections are counted from zero.
                self.data.counts.rejected_replies = 0;
                self.data.purpose = super::data::Purpose::Step;
                State::Ready.go()
            }
            End::Answered { stop_reason, output } => {
                let answer = self.build_answer(stop_reason, output.as_deref());
                State::answered(stop_reason, output).with(Effect::Done(Box::new(answer)))
            }
            End::LimitReached => {
                let limit = self.data.purpose.limit();
                let error = limit.map_or(AgentErrorKind::Incomplete, AgentErrorKind::LimitReached);
                State::Ended(End::LimitReached).fail(error)
            }
            End::Cancelled => State::Ended(End::Cancelled).fail(AgentErrorKind::Cancelled),
        }
    }

    /// Builds the answer from `output`, or from the last message of the transcript.
    fn build_answer(&self, stop_reason: StopReason, output: Option<&Output>) -> RunAnswer {
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
            steps: self.tool_steps(self.own_messages()),
            usage: self.data.counts.usage,
            stop_reason,
            agent: None,
            guardrails: Vec::clone(&self.data.reports),
            transcript: self.transcript.clone(),
        }
    }

    /// Returns the structured output that the model wrote as text or as a bare value in `reply`,
    /// the reply to the request in flight. `None` if the dialect has already read the output as an
    /// object, or if there is no valid output.
    pub(crate) fn written_output(&self, reply: &Reply) -> Option<Value> {
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
        parse_answer(&self.data.config, self.answer_schema()?, &message.content).ok()
    }

    /// Returns the calls in `messages` with their results, without calls that give the outputs.
    fn tool_steps(&self, messages: &[Arc<Message>]) -> Vec<AgentStep> {
        let mut steps = agent_steps(messages);
        steps.retain(|step| !self.data.answer_calls.contains(&step.result.call_id));
        steps
    }

    /// Returns the calls whose results start at the transcript index `first`, without calls that
    /// give the outputs.
    pub(super) fn calls_of_results(&self, first: usize) -> Vec<AgentStep> {
        let messages = self.transcript.messages();
        let end = self.result_indices(first).end;
        let mut steps = self.tool_steps(messages.get(first.saturating_sub(1)..end).unwrap_or_default());
        let own = messages.get(self.data.first_message..first).unwrap_or_default();
        let replies = own.iter().filter(|it| matches!(it.body(), MessageBody::Assistant(_))).count();
        let number = u32::try_from(replies).unwrap_or(u32::MAX);
        steps.iter_mut().for_each(|step| step.step_number = number);
        steps
    }

    /// Returns the transcript indices of the results of one reply, from the index `first` on.
    pub(super) fn result_indices(&self, first: usize) -> Range<usize> {
        let messages = self.transcript.messages().get(first..).unwrap_or_default();
        let count = messages.iter().take_while(|it| matches!(it.body(), MessageBody::Tool(_))).count();
        first..first + count
    }

    /// Returns the state of a run whose answer is the tool result at the transcript index `index`,
    /// or the answer in the call of this result.
    pub(super) fn end_with_result(&mut self, index: usize) -> State {
        if let Some(output) = self.output_of_answer_call(index) {
            // The call is in the reply before the first result.
            let is_reply = |message: &Arc<Message>| !message.tool_calls().is_empty();
            let earlier = self.transcript.messages().get(..index).unwrap_or_default();
            let reply = earlier.iter().rposition(is_reply);
            return self.end_with_output(Box::new(output), Vec::from_iter(reply));
        }
        let message = self.transcript.messages().get(index).map(|message| message.body());
        let result = match message {
            Some(MessageBody::Tool(result)) => result.output(),
            _ => None,
        };
        let (value, outputs) = split_object(result.and_then(|result| result.structured.clone()));
        let text = result.map(|result| result.text().into_owned()).unwrap_or_default();
        let output = Box::new(Output { text, outputs, value, stop_reason: StopReason::Tool });
        self.data.purpose = super::data::Purpose::Step;
        self.end_with_tool_output(output, vec![index])
    }

    /// Returns the state of a run that ends with `output`, the output of tools or of a hook.
    /// `sources` are the transcript indices of the results with the output. Structured data that
    /// does not fit the declared schema is removed.
    pub(super) fn end_with_tool_output(&self, mut output: Box<Output>, sources: Vec<usize>) -> State {
        if self.data.config.outputs.is_some() {
            (output.value, output.outputs) = self.declared_outputs_of(&mut output);
        }
        self.end_with_output(output, sources)
    }

    /// Returns the state of a run that ends with `output`. `sources` are the transcript indices of
    /// the messages with the output.
    fn end_with_output(&self, output: Box<Output>, sources: Vec<usize>) -> State {
        if self.data.config.checks.answer {
            State::Checking(Candidate::Answer(Answer { output, message: None, sources }))
        } else {
            State::answered(output.stop_reason, Some(output))
        }
    }

    /// Returns the output that a call to `finish` gave beside other calls. `index` is the
    /// transcript index of the result of this call. `None` if the result is the result of another
    /// tool.
    fn output_of_answer_call(&self, index: usize) -> Option<Output> {
        let schema = self.data.config.outputs.as_ref()?;
        let earlier = self.transcript.messages().get(..=index)?;
        let MessageBody::Tool(result) = earlier.last()?.body() else { return None };
        let calls = earlier.iter().rev().flat_map(|message| message.tool_calls());
        let is_answer = self.data.answer_calls.contains(&result.call_id);
        let call = calls.into_iter().find(|call| is_answer && call.id == result.call_id)?;
        let value = self.parse_answer_call(schema, call).ok()?;
        let message = AssistantMessage { content: vec![Content::Json { value }], ..Default::default() };
        Some(self.output_of(&message, self.data.purpose.stop_reason()))
    }

    /// Converts `message` to an output. The output has structured data if the run declares outputs,
    /// and `message` is not a refusal and contains only a JSON object.
    pub(super) fn output_of(&self, message: &AssistantMessage, stop_reason: StopReason) -> Output {
        let outputs = match (&message.refusal, message.content.as_slice()) {
            (None, [Content::Json { value }]) if self.data.config.outputs.is_some() => value.as_object(),
            _ => None,
        };
        let (value, outputs) = self.data.config.split_outputs(outputs.cloned().unwrap_or_default());
        let text = match (&message.refusal, &value) {
            (Some(refusal), _) => refusal.clone(),
            (None, Some(value)) => value_text(value),
            (None, None) => message.text(),
        };
        Output { text, outputs, value, stop_reason }
    }

    /// Takes the structured data of `output`, the result of a stop tool, if it is valid for the
    /// declared outputs. If the declared output is not an object, the result can also be its text,
    /// such as `42` for a number.
    fn declared_outputs_of(&self, output: &mut Output) -> (Option<Value>, Map<String, Value>) {
        let config = &self.data.config;
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

    /// Returns the transcript message of an accepted answer.
    pub(super) fn answer_message(&self, message: AssistantMessage) -> Message {
        let config = &self.data.config;
        let is_extracted = config.outputs.is_some()
            && config.output_strategy == OutputStrategy::Extraction
            && self.must_answer();
        let message = Message::assistant(message);
        if is_extracted { mark_extracted(message) } else { message }
    }

    /// Checks that the structured data of `output`, if it has any, fits the declared schema. The
    /// data of a tool need not fit.
    pub(crate) fn check_structure(&self, output: Output) -> Result<Output, BoxError> {
        let config = &self.data.config;
        let has_data = output.value.is_some() || !output.outputs.is_empty();
        let is_structured = has_data && output.stop_reason != StopReason::Tool;
        if let (Some(schema), true) = (&config.outputs, is_structured) {
            let value = config.join_outputs(output.value.clone(), output.outputs.clone());
            schema.validate(&value).map_err(|it| format!("the outputs do not fit: {it}"))?;
        }
        Ok(output)
    }

    /// Checks `changed`, the output that a hook returned for `output`. Returns `changed` with the
    /// stop reason of `output`. Fails if the structured data was changed and does not fit the
    /// declared schema. Without a declared schema, only the output of a stop tool can have
    /// structured data.
    pub(crate) fn check_changed_output(
        &self,
        output: &Output,
        mut changed: Output,
    ) -> Result<Output, BoxError> {
        changed.stop_reason = output.stop_reason;
        if changed.outputs == output.outputs && changed.value == output.value {
            return Ok(changed);
        }
        let config = &self.data.config;
        let outputs = config.join_outputs(changed.value.clone(), changed.outputs.clone());
        match &config.outputs {
            Some(schema) => {
                schema.validate(&outputs).map_err(|it| format!("the outputs do not fit: {it}"))?;
            }
            None if output.stop_reason == StopReason::Tool => {}
            None => return Err("there are outputs now, and none were declared".into()),
        }
        if changed.text == output.text {
            changed.text = changed.value.as_ref().map_or_else(|| outputs.to_string(), value_text);
        }
        Ok(changed)
    }
}
