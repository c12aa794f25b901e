//! Validation of the output before it is accepted.

use haft_core::{
    Message,
    agent::{AgentErrorKind, StopReason},
    call::BoxError,
};
use serde::{Deserialize, Serialize};
use serde_json::Map;
use serde_json::Value;

use super::{Run, RunError, marks, state::State};

/// The output of a run, for validation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Output {
    /// The output as text, or the JSON text of structured output.
    pub text: String,
    /// The structured output, if outputs are declared.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub outputs: Map<String, Value>,
    /// The stop reason, if the output is accepted.
    pub stop_reason: StopReason,
}

impl Output {
    /// Creates a text output of a finished model, for tests of a validator.
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
        Self { text: String::new(), outputs: Map::new(), stop_reason }
    }
}

/// The verdict of a validator that does not accept an output.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// The model reads the problem and answers again, at most
    /// [`RunConfig::max_output_retries`](super::RunConfig::max_output_retries) times in a row.
    #[error("{0}")]
    Retry(String),
    /// The validation failed: the run ends.
    #[error("the validation of the answer failed")]
    Failed(#[source] BoxError),
}

impl OutputError {
    /// Rejects the output. The model receives `problem` and answers again.
    pub fn retry(problem: impl Into<String>) -> Self {
        Self::Retry(problem.into())
    }

    /// Ends the run with an error, which is not sent to the model. An `OutputError` is returned
    /// unchanged.
    pub fn failed(error: impl Into<BoxError>) -> Self {
        match error.into().downcast::<Self>() {
            Ok(error) => *error,
            Err(error) => Self::Failed(error),
        }
    }
}

impl Run {
    /// Reports the verdict on the output of [`Effect::Check`](super::Effect::Check).
    ///
    /// A changed output must still fit the declared schema. The transcript keeps the message of the
    /// model. If only the data was changed, the text is generated from the data.
    ///
    /// # Errors
    ///
    /// Fails if no output is being validated, if there were too many rejections in a row, and with
    /// [`AgentErrorKind::Hook`] if the validation failed. The verdict can then be reported again.
    pub fn on_check(&mut self, checked: Result<Output, OutputError>) -> Result<(), AgentErrorKind> {
        let State::CheckingOutput { output, .. } = self.head.state.state() else {
            return Err(RunError::NoCheck.into());
        };
        match checked {
            Ok(changed) => {
                let output = self.changed(output, changed).map_err(failed)?;
                self.accept_output(output);
                Ok(())
            }
            Err(OutputError::Retry(problem)) => {
                let Some((purpose, _, message)) = self.head.state.take_output() else { return Ok(()) };
                if let Some(message) = message {
                    self.push(marks::rejected(Message::assistant(message)));
                }
                // This text is sent to the model.
                let problem = format!("Your answer was rejected: {problem}\nAnswer again.");
                let (next, result) = self.request_correction(purpose, problem);
                self.head.state.finish_check(next);
                result
            }
            Err(OutputError::Failed(source)) => Err(failed(source)),
        }
    }

    fn accept_output(&mut self, output: Output) {
        let Some((_, _, message)) = self.head.state.take_output() else { return };
        let stop_reason = output.stop_reason;
        let is_message = message.as_ref().is_some_and(|it| self.output_of(it, stop_reason) == output);
        if let Some(message) = message {
            self.push(Message::assistant(message));
        }
        let output = (!is_message).then(|| Box::new(output));
        self.head.state.finish_check(State::finishing(stop_reason, output));
    }

    /// The output as a validator changed it, if it is still valid.
    fn changed(&self, output: &Output, mut changed: Output) -> Result<Output, BoxError> {
        changed.stop_reason = output.stop_reason;
        if changed.outputs == output.outputs {
            return Ok(changed);
        }
        let outputs = Value::Object(changed.outputs);
        match &self.head.config.outputs {
            Some(schema) => {
                schema
                    .validate(&outputs)
                    .map_err(|violations| format!("the outputs do not fit: {violations}"))?;
            }
            None if output.stop_reason == StopReason::Tool => {}
            None => return Err("there are outputs now, and none were declared".into()),
        }
        if changed.text == output.text {
            changed.text = outputs.to_string();
        }
        let outputs = if let Value::Object(outputs) = outputs { outputs } else { Map::new() };
        Ok(Output { outputs, ..changed })
    }

    /// Keeps the message under validation as unusable.
    pub(super) fn reject_output(&mut self) {
        let Some((purpose, _, message)) = self.head.state.take_output() else { return };
        if let Some(message) = message {
            self.push(marks::rejected(Message::assistant(message)));
        }
        self.head.state.finish_check(State::ReadyToRequest { purpose });
    }
}

fn failed(source: BoxError) -> AgentErrorKind {
    AgentErrorKind::Hook { hook: "output validator", source }
}
