use std::{any::type_name, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use super::{GuardrailReport, SuspendedRun};
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
    /// The run ended with its final answer.
    Answer(Box<RunAnswer>),
    /// The run is suspended until decisions arrive.
    Suspended(SuspendedRun),
}

/// The answer of a run, with the tool calls, the usage and the transcript of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunAnswer {
    /// The answer as text.
    pub text: String,
    /// The values of the declared outputs, by name. Empty if the agent declares no outputs, unless
    /// a stop tool ended the run.
    ///
    /// If a [stop tool](super::RunInput::with_stop_on) ended the run, `outputs` contains the fields
    /// of the tool's structured result. It is empty if the result is not an object or does not
    /// match the declared outputs.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub outputs: Map<String, Value>,
    /// The output of the run if it is not an object, such as a number, a list or `null`. `None` if
    /// the output is an object or plain text. [`outputs`](Self::outputs) then contains only the
    /// reasoning, if the agent declares it.
    #[serde(default, deserialize_with = "deserialize_some", skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// The tool calls of this run with their results, in order.
    pub steps: Vec<AgentStep>,
    /// The tokens and the cost of the run.
    pub usage: Usage,
    /// The reason why the run ended.
    pub stop_reason: StopReason,
    /// The name of the agent that gave the answer. The name of a nested agent is a path, such as
    /// `support/refunds`. `None` if no router or hand-off group selected an agent by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The decisions of the guardrails of this run, in order. A call or a result that passed
    /// without information has no report.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guardrails: Vec<GuardrailReport>,
    /// The whole conversation. Pass it to the [next turn](super::RunInput::with_history) as
    /// history.
    pub transcript: Transcript,
}

/// A tool call made during a run, with its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentStep {
    /// The number of the reply that contains the call, counted from 1. All calls of a reply have
    /// the same number.
    pub step_number: u32,
    /// The name of the tool, as received from the model.
    pub tool_name: String,
    /// The arguments of the call. Arguments that are not valid JSON are stored as a JSON string.
    pub tool_args: Arc<Value>,
    /// The result of the tool call.
    pub result: Arc<ToolResult>,
    /// The reasoning of the reply that contains the call, or the text of the reply if there is no
    /// reasoning. `None` if the reply has neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
}

/// The reason why a run ended with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StopReason {
    /// The model gave its final answer.
    Finished,
    /// A limit was reached. The answer is the reply to a final request, in which the model must not
    /// call tools.
    LimitReached,
    /// The model declined to answer. The text of the answer is the model's explanation.
    Refusal,
    /// A call to a [stop tool](crate::agent::RunInput::with_stop_on) succeeded. The answer is the
    /// result of the call.
    Tool,
    /// The router could not assign the task to an agent. The text of the answer is a question to
    /// the user.
    Clarification,
    /// A guardrail blocked the input or the answer. The text of the answer is from the guardrail.
    Blocked,
}

/// The error of [`RunAnswer::parse`]: the outputs do not match the requested type.
#[derive(Debug, thiserror::Error)]
#[error("the answer is no {expected}: {}", describe_field_error(field, source))]
pub struct AnswerParseError {
    /// The path of the invalid field, such as `address.city`. For a missing field, this is the path
    /// of the enclosing object. Empty for the top-level object.
    pub field: String,
    /// The name of the requested type, without its module path. Type arguments keep their module
    /// paths, as in `Vec<crate_name::Item>`.
    pub expected: &'static str,
    /// The deserialization error.
    pub source: serde_json::Error,
}

fn describe_field_error(field: &str, source: &serde_json::Error) -> String {
    if field.is_empty() { source.to_string() } else { format!("`{field}`: {source}") }
}

/// Returns `name`, the name of a type, without the module path in front of it. The module paths of
/// type arguments are kept.
fn strip_module_path(name: &'static str) -> &'static str {
    let path = name.split(['<', '(', '[', '&', '*', ' ']).next();
    path.and_then(|path| name.get(path.rfind("::")? + 2..)).unwrap_or(name)
}

/// Deserializes a value that is present. `null` becomes `Some(Value::Null)`.
fn deserialize_some<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl RunAnswer {
    /// Deserializes the [value](Self::value) or the [outputs](Self::outputs) into a `T`. If there
    /// are neither, `T` can be `String` or another type that is deserialized from the text. A float
    /// without a fraction, such as `3.0`, is accepted as an integer, as in JSON Schema.
    ///
    /// # Errors
    ///
    /// Fails with an [`AnswerParseError`] that names the invalid field. If the agent declares no
    /// outputs, the error names the first required field of `T` as missing.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, AnswerParseError> {
        // A permissive type such as `Value` also accepts the empty outputs, so the text is first.
        if self.value.is_none()
            && self.outputs.is_empty()
            && let Ok(text) = T::deserialize(Value::from(&*self.text))
        {
            return Ok(text);
        }
        let output = self.value.clone().unwrap_or_else(|| Value::Object(self.outputs.clone()));
        if let Ok(typed) = haft_schema::deserialize(output.clone()) {
            return Ok(typed);
        }
        serde_path_to_error::deserialize(output).map_err(|error| AnswerParseError {
            field: Some(error.path().to_string()).filter(|path| path != ".").unwrap_or_default(),
            expected: strip_module_path(type_name::<T>()),
            source: error.into_inner(),
        })
    }

    /// Records that the agent named `agent` gave the answer. If an inner agent has already recorded
    /// its name, `agent` is prepended to that name, as in `support/refunds`.
    #[must_use]
    pub fn prepend_agent(mut self, agent: &str) -> Self {
        self.agent = Some(match self.agent {
            Some(inner) => format!("{agent}/{inner}"),
            None => agent.to_owned(),
        });
        self
    }
}

impl RunOutput {
    /// Returns the answer, or `None` if the run is suspended.
    pub fn answer(&self) -> Option<&RunAnswer> {
        match self {
            Self::Answer(answer) => Some(answer),
            Self::Suspended(_) => None,
        }
    }

    /// Converts the output into the answer.
    ///
    /// # Errors
    ///
    /// Fails with the [`SuspendedRun`] if the run is suspended.
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
    /// Fails with the [`SuspendedRun`] if the run is suspended. The error message lists the calls
    /// that need a decision.
    pub fn text(&self) -> Result<&str, SuspendedRun> {
        self.try_answer().map(|answer| &*answer.text)
    }

    /// Returns the whole conversation. Pass it to the [next turn](super::RunInput::with_history) as
    /// history.
    ///
    /// # Errors
    ///
    /// Fails with the [`SuspendedRun`] if the run is suspended.
    pub fn transcript(&self) -> Result<&Transcript, SuspendedRun> {
        self.try_answer().map(|answer| &answer.transcript)
    }

    fn try_answer(&self) -> Result<&RunAnswer, SuspendedRun> {
        match self {
            Self::Answer(answer) => Ok(answer),
            Self::Suspended(suspended) => Err(suspended.clone()),
        }
    }

    /// Returns the results of all calls to the tool named `tool`, in the order of the calls.
    /// Returns no results if the run is suspended.
    pub fn results_of<'a>(&'a self, tool: &'a str) -> impl Iterator<Item = &'a ToolResult> {
        let steps = self.answer().into_iter().flat_map(|answer| &answer.steps);
        steps.filter(move |step| step.tool_name == tool).map(|step| &*step.result)
    }
}
