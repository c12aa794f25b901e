use std::sync::Arc;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use super::SuspendedRun;
use crate::{call::ToolResult, message::Transcript, usage::Usage};

/// The output of a run: an answer, or a suspended run.
///
/// # Examples
///
/// ```no_run
/// use haft_core::{Agent, RunInput, RunOutput, agent::AgentError};
///
/// # async fn example(agent: impl Agent) -> Result<(), AgentError> {
/// match agent.run(RunInput::new("Pay the invoice.")).await? {
///     RunOutput::Answer(answer) => println!("{}", answer.text),
///     RunOutput::Suspended(suspended) => println!("{suspended}"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "a run ends with an answer or is suspended")]
pub enum RunOutput {
    /// The final answer.
    Answer(Box<RunAnswer>),
    /// The run is suspended until decisions arrive.
    Suspended(SuspendedRun),
}

/// The answer of a run, with its calls, usage and transcript.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunAnswer {
    /// The answer as text.
    pub text: String,
    /// The declared outputs, as data. Empty if the agent declares none.
    ///
    /// If a [stop tool](super::RunInput::with_stop_on) ended the run, this is its structured
    /// result, if the result has the form of the outputs.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub outputs: Map<String, Value>,
    /// The calls of this run, in order.
    pub steps: Vec<AgentStep>,
    /// The usage of the run.
    pub usage: Usage,
    /// The reason for the end of the run.
    pub stop_reason: StopReason,
    /// The name of the answering agent, if there are several. A nested agent is a path, such as
    /// `support/refunds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The whole conversation, for the [next turn](super::RunInput::with_history).
    pub transcript: Transcript,
}

/// A call of a run with its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentStep {
    /// The number of the reply with the call, from 1. Parallel calls share a number.
    pub step_number: u32,
    /// The name of the tool as received.
    pub tool_name: String,
    /// The arguments, or their text if it is not valid JSON.
    pub tool_args: Arc<Value>,
    /// The result.
    pub result: Arc<ToolResult>,
    /// The reasoning of the reply, or else its text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
}

/// The reason for the end of a run with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StopReason {
    /// The model gave its final answer.
    Finished,
    /// A limit was reached, and the model answered in a final request without tools.
    LimitReached,
    /// The model declined to answer; the text is its explanation.
    Refused,
    /// A [stop tool](crate::agent::RunInput::with_stop_on) was called; the answer is its result.
    Tool,
    /// The task is unclear; the text is a question to the user.
    Clarification,
}

/// An error of [`RunAnswer::parse`]: the outputs do not fit the type.
#[derive(Debug, thiserror::Error)]
#[error("the answer is no {wanted}: {}", with_path(field, source))]
pub struct ParseError {
    /// The path of the field, such as `address.city`. Empty if the error is at the root.
    pub field: String,
    /// The name of the type.
    pub wanted: &'static str,
    /// The error of the field.
    pub source: serde_json::Error,
}

fn with_path(field: &str, source: &serde_json::Error) -> String {
    if field.is_empty() { source.to_string() } else { format!("`{field}`: {source}") }
}

impl RunAnswer {
    /// Reads the [outputs](Self::outputs) into a type.
    ///
    /// # Errors
    ///
    /// Fails with a [`ParseError`] that names the field. Without declared outputs, each required
    /// field is missing.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, ParseError> {
        let outputs = Value::Object(self.outputs.clone());
        serde_path_to_error::deserialize(outputs).map_err(|error| ParseError {
            field: Some(error.path().to_string()).filter(|path| path != ".").unwrap_or_default(),
            wanted: std::any::type_name::<T>().rsplit("::").next().unwrap_or_default(),
            source: error.into_inner(),
        })
    }

    /// Sets the name of the answering agent. The name of an inner agent is kept as the end of a
    /// path, such as `support/refunds`.
    #[must_use]
    pub fn by(mut self, agent: &str) -> Self {
        self.agent = Some(match self.agent {
            Some(inner) => format!("{agent}/{inner}"),
            None => agent.to_owned(),
        });
        self
    }
}

impl RunOutput {
    /// Returns the answer. `None` if the run is suspended.
    pub fn answer(&self) -> Option<&RunAnswer> {
        match self {
            Self::Answer(answer) => Some(answer),
            Self::Suspended(_) => None,
        }
    }

    /// Returns the answer.
    ///
    /// # Errors
    ///
    /// Fails with the [`SuspendedRun`] run.
    pub fn into_answer(self) -> Result<RunAnswer, SuspendedRun> {
        match self {
            Self::Answer(answer) => Ok(*answer),
            Self::Suspended(suspended) => Err(suspended),
        }
    }

    /// Returns the text of the answer.
    ///
    /// # Errors
    ///
    /// Fails with the [`SuspendedRun`] run, which names the calls that need a decision.
    pub fn text(&self) -> Result<&str, SuspendedRun> {
        self.try_answer().map(|answer| &*answer.text)
    }

    /// Returns the conversation, for the [next turn](super::RunInput::with_history).
    ///
    /// # Errors
    ///
    /// Fails with the [`SuspendedRun`] run.
    pub fn transcript(&self) -> Result<&Transcript, SuspendedRun> {
        self.try_answer().map(|answer| &answer.transcript)
    }

    fn try_answer(&self) -> Result<&RunAnswer, SuspendedRun> {
        match self {
            Self::Answer(answer) => Ok(answer),
            Self::Suspended(suspended) => Err(suspended.clone()),
        }
    }

    /// Returns the results of a tool, by its name, in the order of the calls. Empty if the run is
    /// suspended.
    pub fn results_of<'a>(&'a self, tool: &'a str) -> impl Iterator<Item = &'a ToolResult> {
        let steps = self.answer().into_iter().flat_map(|answer| &answer.steps);
        steps.filter(move |step| step.tool_name == tool).map(|step| &*step.result)
    }
}
