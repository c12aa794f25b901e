//! How a run went.

use std::time::Duration;

use haft_core::{RunOutput, agent::AgentError, usage::Usage};
use serde_json::Value;

use crate::case::{Call, Case};

/// How many of the nine answers must be right.
const ANSWERS: usize = 8;

/// What happened in one run, whoever drove it.
pub(crate) struct Went {
    /// The calls, by tool and arguments.
    pub(crate) calls: Vec<(String, Value)>,
    /// The answer, or why there is none.
    pub(crate) answer: Result<String, String>,
    pub(crate) usage: Usage,
}

/// What was right in one run, and what it cost.
pub(crate) struct Score {
    pub(crate) tool: bool,
    pub(crate) arguments: bool,
    pub(crate) answer: bool,
    pub(crate) took: Duration,
    pub(crate) usage: Usage,
    /// The calls and the answer, for whoever wants to know what was wrong.
    pub(crate) went: String,
}

/// Nothing.
impl Default for Went {
    fn default() -> Self {
        Self { calls: Vec::new(), answer: Err("there is no answer".to_owned()), usage: Usage::default() }
    }
}

impl From<Result<RunOutput, AgentError>> for Went {
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
    /// Judges a run by its first calls, as many as the question takes, and its answer.
    pub(crate) fn of(case: &Case, went: Went, took: Duration) -> Self {
        let made: Vec<_> = went.calls.iter().take(case.calls.len()).collect();
        let is_tool = |call: &Call, (tool, _): &(String, Value)| tool == call.tool;
        let is_right = |call: &Call, (tool, arguments): &(String, Value)| {
            tool == call.tool && are_right(call, arguments)
        };
        let text = went.answer.as_deref().unwrap_or_default();
        let calls: String =
            went.calls.iter().map(|(tool, arguments)| format!("{tool} {arguments}; ")).collect();
        Self {
            tool: all_made(case.calls, &made, is_tool),
            arguments: all_made(case.calls, &made, is_right),
            answer: case.answer.iter().all(|group| group.iter().any(|words| text.contains(words))),
            took,
            usage: went.usage,
            went: match &went.answer {
                Ok(text) => format!("{calls}{text:?}"),
                Err(reason) => format!("{calls}{reason}"),
            },
        }
    }
}

/// Whether each of some calls was made, by a call of its own.
fn all_made(
    calls: &[Call],
    made: &[&(String, Value)],
    is_it: impl Fn(&Call, &(String, Value)) -> bool,
) -> bool {
    let mut left = made.to_vec();
    calls.iter().all(|call| {
        let at = left.iter().position(|made| is_it(call, made));
        at.map(|at| left.remove(at)).is_some()
    })
}

/// Whether all arguments are right, and no other is there.
fn are_right(call: &Call, arguments: &Value) -> bool {
    let Value::Object(given) = arguments else { return false };
    let known = |name: &str| call.arguments.iter().any(|(expected, _)| *expected == name);
    let right = |name: &str, values: &[&str]| {
        values.contains(&given.get(name).map(plain).unwrap_or_default().as_str())
    };
    given.keys().all(|name| known(name)) && call.arguments.iter().all(|(name, values)| right(name, values))
}

/// An argument as text: `25.0` is `25`, and a folder is the same with a slash behind it.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.trim_end_matches('/').to_owned(),
        Value::Number(number) => number.as_f64().map(|number| number.to_string()).unwrap_or_default(),
        other => other.to_string(),
    }
}

/// Whether that is good enough.
pub(crate) fn pass(scores: &[Score]) -> bool {
    let answers = scores.iter().filter(|score| score.answer).count();
    scores.iter().all(|score| score.tool && score.arguments) && answers >= ANSWERS
}

#[cfg(test)]
mod tests;
