use std::sync::Arc;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use super::Parked;
use crate::{call::ToolResult, message::Transcript, usage::Usage};

/// How a run ended: with an answer, or waiting for one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "a run ends with an answer or is suspended")]
pub enum RunOutput {
    /// There is an answer.
    Answer(Box<RunAnswer>),
    /// The run waits.
    Parked(Parked),
}

/// What a run answered, and how it came to that.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunAnswer {
    /// The answer as text.
    pub text: String,
    /// The answer as data, where outputs were declared; of a tool that ended the run, its structured result, if that is an
    /// object of their form.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub outputs: Map<String, Value>,
    /// The calls of this run, in order.
    pub steps: Vec<AgentStep>,
    /// What the run cost.
    pub usage: Usage,
    /// Why it stopped.
    pub stop_reason: StopReason,
    /// Who answered, where there are several agents; of one inside another, the way to it, such as `support/refunds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The whole conversation, for the next question.
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

/// Why a run stopped with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StopReason {
    /// The model was done.
    Finished,
    /// A limit was reached, and the model was made to answer with what it had.
    LimitReached,
    /// The model declined; the text says why.
    Refused,
    /// A [tool that ends the run](crate::agent::RunInput::with_stop_on) was done; the answer is its result.
    Tool,
    /// It is not clear what is wanted; the text is a question back.
    Clarification,
}

/// An error of [`RunAnswer::parse`]: the outputs do not fit the type.
#[derive(Debug, thiserror::Error)]
#[error("the answer is no {wanted}: {}", at(field, source))]
pub struct ParseError {
    /// The path of the field, such as `address.city`. Empty if the error is at the root.
    pub field: String,
    /// The name of the type.
    pub wanted: &'static str,
    /// The error of the field.
    pub source: serde_json::Error,
}

fn at(field: &str, source: &serde_json::Error) -> String {
    if field.is_empty() { source.to_string() } else { format!("`{field}`: {source}") }
}

impl RunAnswer {
    /// Reads the [outputs](Self::outputs) into a type.
    ///
    /// # Errors
    ///
    /// Fails with a [`ParseError`] that names the field. Without declared outputs, each required field is
    /// missing.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, ParseError> {
        let outputs = Value::Object(self.outputs.clone());
        serde_path_to_error::deserialize(outputs).map_err(|error| ParseError {
            field: Some(error.path().to_string()).filter(|path| path != ".").unwrap_or_default(),
            wanted: std::any::type_name::<T>().rsplit("::").next().unwrap_or_default(),
            source: error.into_inner(),
        })
    }

    /// Says which of several agents answered; it may have several agents inside, of which one did.
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
            Self::Parked(_) => None,
        }
    }

    /// Returns the answer.
    ///
    /// # Errors
    ///
    /// Fails with the [`Parked`] run.
    pub fn into_answer(self) -> Result<RunAnswer, Parked> {
        match self {
            Self::Answer(answer) => Ok(*answer),
            Self::Parked(parked) => Err(parked),
        }
    }

    /// Returns the text of the answer.
    ///
    /// # Errors
    ///
    /// Fails with the [`Parked`] run, which names the calls that need a decision.
    pub fn text(&self) -> Result<&str, Parked> {
        self.finished().map(|answer| &*answer.text)
    }

    /// Returns the conversation, for the [next turn](super::RunInput::with_history).
    ///
    /// # Errors
    ///
    /// Fails with the [`Parked`] run.
    pub fn transcript(&self) -> Result<&Transcript, Parked> {
        self.finished().map(|answer| &answer.transcript)
    }

    fn finished(&self) -> Result<&RunAnswer, Parked> {
        match self {
            Self::Answer(answer) => Ok(answer),
            Self::Parked(parked) => Err(parked.clone()),
        }
    }

    /// The results of a tool by name, in order.
    pub fn results_of<'a>(&'a self, tool: &'a str) -> impl Iterator<Item = &'a ToolResult> {
        let steps = self.answer().into_iter().flat_map(|answer| &answer.steps);
        steps.filter(move |step| step.tool_name == tool).map(|step| &*step.result)
    }
}
