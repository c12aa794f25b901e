//! Scores the runs of an evaluation.

use std::time::Duration;

use haft_core::{RunOutput, agent::AgentError, usage::Usage};
use serde_json::Value;

use crate::case::{Call, Case};

/// The minimum number of right answers to the nine questions.
const MIN_RIGHT_ANSWERS: usize = 8;

/// The calls, the answer and the usage of a run, from an agent or from the plain loop.
pub(crate) struct RunRecord {
    /// The name and the arguments of each tool call.
    pub(crate) calls: Vec<(String, Value)>,
    /// The answer, or the reason why the run has no answer.
    pub(crate) answer: Result<String, String>,
    pub(crate) usage: Usage,
}

/// The score of one run, with its duration and usage.
pub(crate) struct Score {
    pub(crate) has_right_tool: bool,
    pub(crate) has_right_arguments: bool,
    pub(crate) has_right_answer: bool,
    pub(crate) took: Duration,
    pub(crate) usage: Usage,
    /// The calls and the answer as text, for the output of the evaluation.
    pub(crate) summary: String,
}

/// The default is the record of a run without calls and without an answer.
impl Default for RunRecord {
    fn default() -> Self {
        Self { calls: Vec::new(), answer: Err("there is no answer".to_owned()), usage: Usage::default() }
    }
}

impl From<Result<RunOutput, AgentError>> for RunRecord {
    fn from(ended: Result<RunOutput, AgentError>) -> Self {
        let output = match ended {
            Ok(output) => output,
            Err(error) => {
                let (usage, answer) = (error.usage, Err(error.to_string()));
                return Self { usage, answer, ..Self::default() };
            }
        };
        let Some(answer) = output.answer() else {
            return Self { answer: Err("the run waits".to_owned()), ..Self::default() };
        };
        let calls = answer.steps.iter().map(|step| (step.tool_name.clone(), (*step.tool_args).clone()));
        Self { calls: calls.collect(), answer: Ok(answer.text.clone()), usage: answer.usage }
    }
}

impl Score {
    /// Scores the run in `record`. If the question expects `n` calls, only the first `n` calls of
    /// the run are compared.
    pub(crate) fn of(case: &Case, record: RunRecord, took: Duration) -> Self {
        let made: Vec<_> = record.calls.iter().take(case.calls.len()).collect();
        let is_tool = |call: &Call, (tool, _): &(String, Value)| tool == call.tool;
        let is_right = |call: &Call, (tool, arguments): &(String, Value)| {
            tool == call.tool && are_arguments_right(call, arguments)
        };
        let text = record.answer.as_deref().unwrap_or_default();
        let calls: String =
            record.calls.iter().map(|(tool, arguments)| format!("{tool} {arguments}; ")).collect();
        Self {
            has_right_tool: all_made(case.calls, &made, is_tool),
            has_right_arguments: all_made(case.calls, &made, is_right),
            has_right_answer: case.answer.iter().all(|group| group.iter().any(|words| text.contains(words))),
            took,
            usage: record.usage,
            summary: match &record.answer {
                Ok(text) => format!("{calls}{text:?}"),
                Err(reason) => format!("{calls}{reason}"),
            },
        }
    }
}

/// Returns `true` if each of the expected `calls` matches a call in `made`. No call in `made` is
/// matched twice.
fn all_made(
    calls: &[Call],
    made: &[&(String, Value)],
    matches: impl Fn(&Call, &(String, Value)) -> bool,
) -> bool {
    let mut left = made.to_vec();
    calls.iter().all(|call| {
        let at = left.iter().position(|made| matches(call, made));
        at.map(|at| left.remove(at)).is_some()
    })
}

/// Returns `true` if `arguments` contains an accepted value for each argument that `call` expects,
/// and no other arguments.
fn are_arguments_right(call: &Call, arguments: &Value) -> bool {
    let Value::Object(given) = arguments else { return false };
    let known = |name: &str| call.arguments.iter().any(|(expected, _)| *expected == name);
    let right = |name: &str, values: &[&str]| {
        values.contains(&given.get(name).map(plain).unwrap_or_default().as_str())
    };
    given.keys().all(|name| known(name)) && call.arguments.iter().all(|(name, values)| right(name, values))
}

/// Converts an argument to text, for the comparison with the accepted values. For example, `25.0`
/// becomes `25`, and slashes at the end of a string are removed.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.trim_end_matches('/').to_owned(),
        Value::Number(number) => number.as_f64().map(|number| number.to_string()).unwrap_or_default(),
        other => other.to_string(),
    }
}

/// Returns `true` if the evaluation passes: all calls are right, and at least [`MIN_RIGHT_ANSWERS`]
/// answers are right.
pub(crate) fn is_passed(scores: &[Score]) -> bool {
    let answers = scores.iter().filter(|score| score.has_right_answer).count();
    scores.iter().all(|score| score.has_right_tool && score.has_right_arguments)
        && answers >= MIN_RIGHT_ANSWERS
}

#[cfg(test)]
mod tests;
