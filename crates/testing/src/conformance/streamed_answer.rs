//! The last reply in the events of a streamed run, compared with the answer.

use std::sync::Arc;

use haft_core::{
    Message, RunEvent,
    agent::{GuardrailAction, GuardrailStage, RunAnswer, StopReason},
    content::Content,
    message::MessageBody,
};
use serde_json::Value;

use super::{Report, Rule};

const ANSWER_STREAMED: Rule = Rule {
    text: "the deltas of the last reply are the answer",
    remedy: "yield the whole answer as `TextDelta`, without the syntax of the reply format, and the complete output as the last `PartialOutput`",
};

/// The events of the last reply.
#[derive(Default)]
pub(super) struct StreamedAnswer {
    text: String,
    output: Option<Value>,
    /// `true` if the reply is complete and was not rejected.
    is_accepted: bool,
}

impl StreamedAnswer {
    pub(super) fn observe(&mut self, event: &RunEvent) {
        match event {
            RunEvent::RequestStarted { .. } => *self = Self::default(),
            RunEvent::TextDelta { text } => self.text.push_str(text),
            RunEvent::PartialOutput { value } => self.output = Some(value.clone()),
            RunEvent::RequestFinished { .. } => self.is_accepted = true,
            RunEvent::ReplyRejected { .. } => self.is_accepted = false,
            _ => {}
        }
    }

    /// Compares the reply with `answer`, the answer of the run.
    pub(super) fn check(&self, answer: &RunAnswer, report: &mut Report) {
        let is_reply = matches!(answer.stop_reason, StopReason::Finished | StopReason::LimitReached);
        let is_changed = answer.guardrails.iter().any(|report| {
            matches!(report.stage, GuardrailStage::Reply | GuardrailStage::Answer)
                && matches!(report.action, GuardrailAction::Rewrite | GuardrailAction::Block)
        });
        if !is_reply || is_changed || !self.is_accepted {
            return;
        }
        if answer.value.is_none() && answer.outputs.is_empty() {
            report.require(ANSWER_STREAMED, self.text == answer.text, || {
                format!("the answer is {:?}, but the deltas are {:?}", answer.text, self.text)
            });
            return;
        }
        let outputs = Value::Object(answer.outputs.clone());
        let output = answer.value.as_ref().unwrap_or(&outputs);
        let is_streamed = self.output.as_ref().is_some_and(|streamed| {
            streamed == output || has_content(answer.transcript.messages(), streamed)
        });
        report.require(ANSWER_STREAMED, is_streamed, || {
            format!("the output is {output}, but the last partial output is {:?}", self.output)
        });
    }
}

/// Returns `true` if a reply in `messages` has the content `output`, before its validation.
fn has_content(messages: &[Arc<Message>], output: &Value) -> bool {
    messages.iter().any(|message| match message.body() {
        MessageBody::Assistant(message) => message
            .content
            .iter()
            .any(|content| matches!(content, Content::Json { value } if value == output)),
        _ => false,
    })
}
