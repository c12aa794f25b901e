//! The review of the results of a step, which can end the run.

use std::ops::Range;

use haft_core::{
    agent::{AgentErrorKind, AgentStep, StopReason},
    call::BoxError,
    message::MessageBody,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Effect, Output, Run, RunError, output::split_object, output_schema::value_text, state::State};

/// The next action of a run after the calls of a reply, as decided by a hook.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum CallReview {
    /// The model receives the results in the next request.
    #[default]
    Continue,
    /// The run ends with the results as its answer. The text of the answer consists of the texts of
    /// the successful results, separated by empty lines. The structured result of a single
    /// successful call is the structured output. If no call succeeded, the run continues.
    Stop,
    /// The run ends with this answer. Its stop reason is ignored.
    Answer {
        /// The answer.
        output: Output,
    },
}

impl CallReview {
    /// Ends the run with the answer `text`.
    pub fn answer(text: impl Into<String>) -> Self {
        Self::Answer { output: Output::new(text) }
    }

    /// Ends the run with the structured output `output`. The text of the answer is its JSON text,
    /// or the string itself.
    pub fn answer_with(output: impl Into<Value>) -> Self {
        let value = output.into();
        let text = value_text(&value);
        let (value, outputs) = split_object(Some(value));
        Self::Answer { output: Output { outputs, value, ..Output::new(text) } }
    }
}

impl Run {
    /// Returns the calls to review as an effect. `results` is the transcript index of the first
    /// result.
    pub(super) fn review_effect(&self, results: usize) -> Effect {
        Effect::Review(self.reviewed_calls(results))
    }

    /// Returns the transcript indices of the results of one reply, from the index `results` on.
    pub(super) fn result_indices(&self, results: usize) -> Range<usize> {
        let messages = self.transcript.messages().get(results..).unwrap_or_default();
        let count = messages.iter().take_while(|it| matches!(it.body(), MessageBody::Tool(_))).count();
        results..results + count
    }

    /// Returns the calls whose results start at the transcript index `results`, without calls that
    /// give the outputs.
    fn reviewed_calls(&self, results: usize) -> Vec<AgentStep> {
        let messages = self.transcript.messages();
        let end = self.result_indices(results).end;
        let mut steps = self.tool_steps(messages.get(results.saturating_sub(1)..end).unwrap_or_default());
        let own = messages.get(self.head.first_message..results).unwrap_or_default();
        let replies = own.iter().filter(|it| matches!(it.body(), MessageBody::Assistant(_))).count();
        let number = u32::try_from(replies).unwrap_or(u32::MAX);
        steps.iter_mut().for_each(|step| step.step_number = number);
        steps
    }

    /// Reports the review that [`Effect::Review`] requested. An answer is validated like the answer
    /// of a stop tool.
    ///
    /// # Errors
    ///
    /// Fails if the last effect was not [`Effect::Review`]. Fails with
    /// [`AgentErrorKind::HookFailed`] if the structured output of an answer does not fit the
    /// declared schema. Another review can then be reported.
    pub fn on_review(&mut self, review: CallReview) -> Result<(), AgentErrorKind> {
        let State::ReviewingCalls { results, output: None } = *self.head.state.state() else {
            return Err(RunError::NoReviewInProgress.into());
        };
        let output = match review {
            CallReview::Continue => None,
            CallReview::Stop => self.output_of_results(results),
            CallReview::Answer { output } => Some(self.check_answer(output)?),
        };
        match output {
            None => {
                self.head.rejected_replies = 0;
                self.head.state.continue_after_review();
            }
            Some(output) => self.head.state.store_review(output),
        }
        Ok(())
    }

    /// Returns the output that consists of the successful results from the transcript index
    /// `results` on. `None` if no call succeeded.
    fn output_of_results(&self, results: usize) -> Option<Output> {
        let steps = self.reviewed_calls(results);
        let outputs: Vec<_> = steps.iter().filter_map(|step| step.result.output()).collect();
        let structured = match outputs.as_slice() {
            [] => return None,
            [only] => only.structured.clone(),
            _ => None,
        };
        let (value, outputs_of_call) = split_object(structured);
        let texts: Vec<_> = outputs.iter().map(|output| output.text()).collect();
        let text = texts.join("\n\n");
        let stop_reason = StopReason::Tool;
        Some(Output { text, outputs: outputs_of_call, value, stop_reason, guardrails: Vec::new() })
    }

    fn check_answer(&self, output: Output) -> Result<Output, AgentErrorKind> {
        let config = &self.head.config;
        let is_structured = output.value.is_some() || !output.outputs.is_empty();
        if let (Some(schema), true) = (&config.outputs, is_structured) {
            let failed = |problem: String| AgentErrorKind::HookFailed {
                hook: "call review",
                source: BoxError::from(problem),
            };
            let value = config.join_outputs(output.value.clone(), output.outputs.clone());
            schema.validate(&value).map_err(|it| failed(format!("the outputs do not fit: {it}")))?;
        }
        Ok(Output { stop_reason: StopReason::Tool, ..output })
    }
}
