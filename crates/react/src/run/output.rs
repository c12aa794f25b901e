//! The output of a run and its validation.

use haft_core::{
    Message,
    agent::{AgentErrorKind, GuardrailAction, GuardrailReport, StopReason},
    call::BoxError,
};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::{Run, RunError, message_metadata, output_schema::value_text, state::State};
use crate::extension::GuardrailFailure;

/// The text and the structured outputs of an answer, as passed to output validators. Unlike a
/// [`RunOutput`](haft_core::RunOutput), an `Output` is never a suspended run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Output {
    /// The text of the output. For structured data from the model, this is the JSON text. For a
    /// stop tool, this is the text of the tool result.
    pub text: String,
    /// The structured output as a JSON object. Empty if the output is only text. The result of a
    /// stop tool can be structured even if the run declares no outputs.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub outputs: Map<String, Value>,
    /// The structured output if it is not an object, such as a number or a list. `None` if the
    /// output is an object or only text.
    #[serde(default, deserialize_with = "deserialize_some", skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// The stop reason of the run if the output is accepted.
    pub stop_reason: StopReason,
    /// The reports of the answer guardrails that have checked the output.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guardrails: Vec<GuardrailReport>,
}

impl Output {
    /// Creates a text output with the stop reason [`StopReason::Finished`], for tests of
    /// validators.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_react::{Output, OutputError};
    ///
    /// fn polite(output: Output) -> Result<Output, OutputError> {
    ///     if output.text.contains("please") { Ok(output) } else { Err(OutputError::retry("Say please.")) }
    /// }
    ///
    /// assert!(polite(Output::new("Sit down, please.")).is_ok());
    /// assert!(polite(Output::new("Sit down.")).is_err());
    /// ```
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::empty(StopReason::Finished) }
    }

    pub(super) fn empty(stop_reason: StopReason) -> Self {
        Self { text: String::new(), outputs: Map::new(), value: None, stop_reason, guardrails: Vec::new() }
    }
}

/// Separates structured data into the fields [`Output::value`] and [`Output::outputs`].
pub(super) fn split_object(structured: Option<Value>) -> (Option<Value>, Map<String, Value>) {
    match structured {
        Some(Value::Object(outputs)) => (None, outputs),
        value => (value, Map::new()),
    }
}

/// An error of an output validator: the output is rejected, or the validation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// The output is rejected. The model receives this text and answers again, at most
    /// [`RunConfig::max_output_retries`](super::RunConfig::max_output_retries) times in a row.
    #[error("{0}")]
    Retry(String),
    /// The validation failed. The run ends with this error, which is not sent to the model.
    #[error("the validation of the answer failed")]
    Failed(#[source] BoxError),
    /// A guardrail blocked the output. The answer of the run is `text`, with the stop reason
    /// [`StopReason::Blocked`] and without structured data. Later requests contain `text` in place
    /// of the output. If the output comes from calls, they contain a note in place of the results,
    /// or no arguments of the call that gave the output.
    #[error("a guardrail blocked the answer")]
    Blocked {
        /// The text that the user reads.
        text: String,
        /// The reports of the guardrails. The last is from the guardrail that blocked the output.
        reports: Vec<GuardrailReport>,
    },
    /// A guardrail ended the run. The run fails with [`AgentErrorKind::Guardrail`].
    #[error("a guardrail ended the run")]
    Ended {
        /// The reports of the guardrails. The last is from the guardrail that ended the run.
        reports: Vec<GuardrailReport>,
    },
}

impl OutputError {
    /// Creates an error that rejects the output. The model receives `problem` and answers again.
    pub fn retry(problem: impl Into<String>) -> Self {
        Self::Retry(problem.into())
    }

    /// Creates an error that ends the run and is not sent to the model. If `error` is an
    /// `OutputError`, it is returned unchanged.
    pub fn failed(error: impl Into<BoxError>) -> Self {
        match error.into().downcast::<Self>() {
            Ok(error) => *error,
            Err(error) => Self::Failed(error),
        }
    }
}

impl Run {
    /// Reports the result of the validation requested by [`Effect::Check`](super::Effect::Check).
    ///
    /// A validator can change the output, but its structured data must still fit the declared
    /// schema. The transcript keeps the original message of the model. If the validator changed
    /// only the structured data, the new JSON text replaces the text of the output.
    ///
    /// # Errors
    ///
    /// Fails with [`AgentErrorKind::Guardrail`] if a guardrail ended the run. The output can then
    /// be checked again. Fails if no output is being validated, if too many replies in a row were
    /// rejected, or if the answer to the final request is rejected. Fails with
    /// [`AgentErrorKind::HookFailed`] if the validation failed, if the changed structured data does
    /// not fit the schema, or if structured data was added to a text answer although the run
    /// declares no outputs. After a `HookFailed` error, another result can be reported.
    pub fn on_check(&mut self, checked: Result<Output, OutputError>) -> Result<(), AgentErrorKind> {
        let State::CheckingOutput { output, .. } = self.head.state.state() else {
            return Err(RunError::NoCheckInProgress.into());
        };
        match checked {
            Ok(mut changed) => {
                let reports = std::mem::take(&mut changed.guardrails);
                let output = self.check_changed_output(output, changed, &reports)?;
                self.record_guardrails(reports);
                self.accept_output(output);
                Ok(())
            }
            Err(OutputError::Retry(problem)) => {
                let Some((purpose, message, _)) = self.head.state.take_output() else { return Ok(()) };
                if let Some(message) = message {
                    self.push(message_metadata::mark_rejected(Message::assistant(message)));
                }
                // This text is sent to the model.
                let problem = format!("Your answer was rejected: {problem}\nAnswer again.");
                let (next, result) = self.request_correction(purpose, problem);
                self.head.state.finish_check(next);
                result
            }
            Err(OutputError::Failed(source)) => Err(failed(source)),
            Err(OutputError::Blocked { text, reports }) => {
                self.record_guardrails(reports);
                self.block_output(text);
                Ok(())
            }
            Err(OutputError::Ended { reports }) => {
                self.record_guardrails(reports);
                Err(self.guardrail_error())
            }
        }
    }

    fn accept_output(&mut self, output: Output) {
        let Some((purpose, message, _)) = self.head.state.take_output() else { return };
        let stop_reason = output.stop_reason;
        let is_message = message.as_ref().is_some_and(|it| self.output_of(it, stop_reason) == output);
        if let Some(message) = message {
            let message = self.answer_message(purpose, message);
            self.push(message);
        }
        let output = (!is_message).then(|| Box::new(output));
        self.head.state.finish_check(State::finishing(stop_reason, output));
    }

    /// Checks `changed`, the output that a validator returned for `output`. Returns `changed` with
    /// the stop reason of `output`. Fails if the structured data was changed and does not fit the
    /// declared schema. Without a declared schema, only the output of a stop tool can have
    /// structured data.
    fn check_changed_output(
        &self,
        output: &Output,
        mut changed: Output,
        reports: &[GuardrailReport],
    ) -> Result<Output, AgentErrorKind> {
        changed.stop_reason = output.stop_reason;
        if changed.outputs == output.outputs && changed.value == output.value {
            return Ok(changed);
        }
        let config = &self.head.config;
        let outputs = config.join_outputs(changed.value.clone(), changed.outputs.clone());
        match &config.outputs {
            Some(schema) => {
                schema.validate(&outputs).map_err(|violations| {
                    invalid_change(&format!("the outputs do not fit: {violations}"), reports)
                })?;
            }
            None if output.stop_reason == StopReason::Tool => {}
            None => {
                return Err(invalid_change("there are outputs now, and none were declared", reports));
            }
        }
        if changed.text == output.text {
            changed.text = changed.value.as_ref().map_or_else(|| outputs.to_string(), value_text);
        }
        Ok(changed)
    }

    /// Stops the validation of an output, if any. The message with the output is recorded as
    /// [rejected](super::is_rejected).
    pub(super) fn reject_output(&mut self) {
        let Some((purpose, message, _)) = self.head.state.take_output() else { return };
        if let Some(message) = message {
            self.push(message_metadata::mark_rejected(Message::assistant(message)));
        }
        self.head.state.finish_check(State::ReadyToRequest { purpose });
    }
}

/// Deserializes a value that is present. `null` becomes `Some(Value::Null)`.
fn deserialize_some<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// Converts the failure of a validation to the error of the run. A cancelled guardrail has not
/// failed.
/// Returns the error for an output that a hook changed, with its `problem`. `reports` contains the
/// answer guardrails that worked after the output validators. If one of them rewrote the output,
/// the error contains its name.
fn invalid_change(problem: &str, reports: &[GuardrailReport]) -> AgentErrorKind {
    let rewrite = reports.iter().rfind(|report| report.action == GuardrailAction::Rewrite);
    failed(match rewrite {
        Some(GuardrailReport { guardrail, .. }) => {
            GuardrailFailure { guardrail: guardrail.clone(), source: problem.into() }.into()
        }
        None => problem.into(),
    })
}

fn failed(source: BoxError) -> AgentErrorKind {
    if let Some(AgentErrorKind::Cancelled) = source.downcast_ref() {
        return AgentErrorKind::Cancelled;
    }
    let hook = if source.is::<GuardrailFailure>() { "answer guardrail" } else { "output validator" };
    AgentErrorKind::HookFailed { hook, source }
}
