//! Answers that are checked before they are taken.

use std::mem;

use haft_core::{
    Message,
    agent::{AgentErrorKind, StopReason},
    call::BoxError,
    message::AssistantMessage,
};
use serde::{Deserialize, Serialize};
use serde_json::Map;
use serde_json::Value;

use super::{Phase, Run, RunError, mark};

/// An answer, as it is checked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Output {
    /// The answer as text; of one that is data, its JSON.
    pub text: String,
    /// The answer as data, where outputs were declared.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub outputs: Map<String, Value>,
    /// Why the run would stop with it.
    pub stop_reason: StopReason,
}

impl Output {
    /// Makes an answer of text, of a model that is done: what a test of a validator gives it.
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
        Self { text: text.into(), ..Self::none(StopReason::Finished) }
    }

    pub(super) fn none(stop_reason: StopReason) -> Self {
        Self { text: String::new(), outputs: Map::new(), stop_reason }
    }
}

/// Why an answer is not taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// The model is told what is wrong, and answers again: as often as it may when outputs do not fit their schema
    /// ([`RunConfig::unusable_replies`](super::RunConfig::unusable_replies)).
    #[error("{0}")]
    Retry(String),
    /// The answer cannot be checked: the run ends.
    #[error("the answer cannot be checked")]
    Failed(#[source] BoxError),
}

impl OutputError {
    /// Has the model answer again; `problem` says what is wrong, for the model.
    pub fn retry(problem: impl Into<String>) -> Self {
        Self::Retry(problem.into())
    }

    /// Ends the run with an error, which the model never sees. An `OutputError` keeps its meaning.
    pub fn failed(error: impl Into<BoxError>) -> Self {
        match error.into().downcast::<Self>() {
            Ok(error) => *error,
            Err(error) => Self::Failed(error),
        }
    }
}

impl Run {
    /// Ends with what the model said, once it is checked.
    pub(super) fn settle(&mut self, said: AssistantMessage, stop_reason: StopReason) {
        if self.head.config.check_outputs {
            let output = self.output(&said, stop_reason);
            let output = Box::new(self.filled(output));
            self.head.phase = Phase::Checking { output, said: Some(Box::new(said)) };
        } else {
            self.push(Message::assistant(said));
            self.head.phase = Phase::Answered { stop_reason, output: None };
        }
    }

    /// Tells what became of the answer that was to be [checked](super::Effect::Check): it is taken, as it was or changed, or is
    /// wrong, or could not be checked.
    ///
    /// An answer that is changed must still have the form of the declared outputs; the transcript keeps what the model said.
    /// Text that is left as it was follows the outputs.
    ///
    /// # Errors
    ///
    /// Fails when no answer is being checked, when it was wrong too often, and with [`AgentErrorKind::Hook`] when it could not
    /// be checked: then the run can be told again.
    pub fn on_check(&mut self, checked: Result<Output, OutputError>) -> Result<(), AgentErrorKind> {
        let Phase::Checking { output, .. } = &self.head.phase else {
            return Err(RunError::NoCheck.into());
        };
        match checked {
            Ok(changed) => {
                let output = self.changed(output, changed).map_err(failed)?;
                let (said, stop_reason) = (self.take_said(), output.stop_reason);
                let is_said = said.as_ref().is_some_and(|said| self.output(said, stop_reason) == output);
                self.transcript.extend(said.map(|said| Message::assistant(said).at(self.head.now).into()));
                let output = (!is_said).then(|| Box::new(output));
                self.head.phase = Phase::Answered { stop_reason, output };
                Ok(())
            }
            Err(OutputError::Retry(problem)) => {
                self.reject();
                self.tell(format!("The answer cannot be taken: {problem}\nGive it again."))
            }
            Err(OutputError::Failed(source)) => Err(failed(source)),
        }
    }

    /// What a check made of an answer, if that is one.
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

    /// Keeps the answer that was being checked, if there is one, as not taken.
    pub(super) fn reject(&mut self) {
        if let Some(said) = self.take_said() {
            self.push(mark::rejected(Message::assistant(said)));
        }
    }

    fn take_said(&mut self) -> Option<AssistantMessage> {
        match mem::replace(&mut self.head.phase, Phase::Asking) {
            Phase::Checking { said, .. } => said.map(|said| *said),
            other => {
                self.head.phase = other;
                None
            }
        }
    }
}

fn failed(source: BoxError) -> AgentErrorKind {
    AgentErrorKind::Hook { hook: "output validator", source }
}
