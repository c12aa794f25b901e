//! How a run went.

use std::time::Duration;

use haft_core::{AgentError, AgentStep, RunOutput, Usage};
use serde_json::Value;

use crate::case::Case;

/// How many of the nine answers must be right.
const ANSWERS: usize = 8;

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

impl Score {
    /// Judges a run by its first call and its answer.
    pub(crate) fn of(case: &Case, ended: Result<RunOutput, AgentError>, took: Duration) -> Self {
        let output = match ended {
            Ok(output) => output,
            Err(error) => {
                let (usage, went) = (error.usage, error.to_string());
                return Self { tool: false, arguments: false, answer: false, took, usage, went };
            }
        };
        let Some(answer) = output.answer() else {
            let (usage, went) = (Usage::default(), "the run waits".to_owned());
            return Self { tool: false, arguments: false, answer: false, took, usage, went };
        };
        let first = answer.steps.first();
        let tool = first.is_some_and(|step| step.tool_name == case.tool);
        let calls: String =
            answer.steps.iter().map(|step| format!("{} {}; ", step.tool_name, step.tool_args)).collect();
        Self {
            tool,
            arguments: tool && first.is_some_and(|step| are_right(case, step)),
            answer: case.answer.iter().all(|group| group.iter().any(|words| answer.text.contains(words))),
            took,
            usage: answer.usage,
            went: format!("{calls}{:?}", answer.text),
        }
    }
}

/// Whether all arguments are right, and no other is there.
fn are_right(case: &Case, step: &AgentStep) -> bool {
    let Value::Object(given) = &step.tool_args else { return false };
    let known = |name: &str| case.arguments.iter().any(|(expected, _)| *expected == name);
    let right = |name: &str, values: &[&str]| {
        values.contains(&given.get(name).map(plain).unwrap_or_default().as_str())
    };
    given.keys().all(|name| known(name)) && case.arguments.iter().all(|(name, values)| right(name, values))
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
