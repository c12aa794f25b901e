use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{PendingCall, ToolOutput};

/// A run that waits, as data: it can be saved, and go on in another process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parked {
    /// What is waited for.
    pub pending: Vec<PendingCall>,
    /// What the agent needs to go on. Only the agent that wrote it reads it.
    pub state: Value,
}

/// Answers by the id of the call that waits. Not all need to come at once.
pub type Answers = BTreeMap<String, Answer>;

/// What somebody says to a call that waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Answer {
    /// The call may run.
    Approved {
        /// With these arguments in place of those that were shown.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<Value>,
    },
    /// The call must not run.
    Denied {
        /// Why; the model reads it.
        reason: String,
    },
    /// What a person said.
    Input {
        /// The answer, of the schema that was asked for.
        value: Value,
    },
    /// What came of work that was done elsewhere.
    Output {
        /// The result.
        output: ToolOutput,
    },
    /// Work that was done elsewhere failed.
    Failed {
        /// Why; the model reads it.
        message: String,
    },
    /// Answers to what a child run waits for, by the ids of its calls.
    Nested {
        /// The answers, or a part of them.
        answers: Answers,
    },
}

impl Answer {
    /// Permits a call with the arguments that were shown.
    pub fn approved() -> Self {
        Self::Approved { arguments: None }
    }

    /// Permits a call with other arguments: those run, and the result carries a warning that says so. They must fit the
    /// tool's schema, or the call fails and the model is told.
    pub fn approved_with(arguments: Value) -> Self {
        Self::Approved { arguments: Some(arguments) }
    }

    /// Refuses a call.
    pub fn denied(reason: impl Into<String>) -> Self {
        Self::Denied { reason: reason.into() }
    }

    /// Gives the result of work that was done elsewhere.
    pub fn output(output: impl Into<ToolOutput>) -> Self {
        Self::Output { output: output.into() }
    }
}
