//! Calls, their results, errors and pending states, as plain data.

mod error;
mod output;
mod pending;
mod resumed;

use std::{borrow::Cow, fmt, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    Timestamp,
    schema::{JsonText, Repair},
};

pub use error::{BoxError, ToolError};
pub use output::{ToolOutcome, ToolOutput};
pub use pending::{Decision, Decisions, Pending, PendingCall, PendingKind};
pub use resumed::{Resumed, ResumedCalls, WrongDecision};

/// A call of a tool, as a model or a program requests it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ToolCall {
    /// Pairs the call with its result. Unique in its run.
    pub id: String,
    /// The name of the tool as received. There may be no such tool.
    pub name: String,
    /// The arguments as received. Malformed arguments are data, not an error of the call.
    pub arguments: JsonText,
}

impl ToolCall {
    /// Creates a call. `arguments` is JSON text or a value.
    pub fn new(id: impl Into<String>, name: impl Into<String>, arguments: impl Into<JsonText>) -> Self {
        Self { id: id.into(), name: name.into(), arguments: arguments.into() }
    }
}

/// What came of a call. Plain data: equal after a round trip through JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The call that this is the result of.
    pub call_id: String,
    /// The tool's name, as the caller wrote it.
    pub name: String,
    /// What the tool returned, or why it did not.
    pub outcome: Outcome,
    /// What the caller should know of a call that went well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// What was changed in the arguments before they fit the schema.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repairs: Vec<Repair>,
    /// When the call began.
    pub started_at: Timestamp,
    /// How long it took.
    pub duration: Duration,
}

/// What a tool returned, or why it did not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "a call succeeds or fails")]
pub enum Outcome {
    /// The call went well.
    Done(ToolOutput),
    /// The call failed.
    Failed(Failure),
}

/// Why a call failed: a kind for the program and a text for the model.
///
/// The source of the error is in the trace and goes no further.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What the failure means for the loop.
    pub kind: FailureKind,
    /// What the model reads.
    pub message: String,
}

/// The kind of a failure; the variants are those of [`ToolError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FailureKind {
    /// The arguments do not fit the schema; the tool did not run.
    InvalidArguments,
    /// The tool asks for another try.
    Retry,
    /// The tool failed.
    Failed,
    /// A gate or a person said no; the tool did not run.
    Denied,
    /// The deadline passed.
    TimedOut,
    /// The run was cancelled.
    Cancelled,
    /// There is no such tool.
    NotFound,
    /// The effect may have happened: connection or process were lost.
    Unconfirmed,
    /// The run cannot go on.
    Fatal,
}

impl ToolResult {
    /// Makes the result of a call that went well, now and in no time. The output's warnings become the result's.
    pub fn done(call_id: impl Into<String>, name: impl Into<String>, output: ToolOutput) -> Self {
        Self::at(Timestamp::now(), call_id.into(), name.into(), Outcome::Done(output))
    }

    /// Makes the result of a call that failed, now and in no time.
    pub fn failed(call_id: impl Into<String>, name: impl Into<String>, error: &ToolError) -> Self {
        Self::at(Timestamp::now(), call_id.into(), name.into(), Outcome::Failed(error.into()))
    }

    /// Makes the result of a call that began then and took no time.
    pub(crate) fn at(started_at: Timestamp, call_id: String, name: String, mut outcome: Outcome) -> Self {
        let warnings = match &mut outcome {
            Outcome::Done(output) => std::mem::take(&mut output.warnings),
            Outcome::Failed(_) => Vec::new(),
        };
        Self { call_id, name, outcome, warnings, repairs: Vec::new(), started_at, duration: Duration::ZERO }
    }

    /// Whether the call went well.
    pub fn is_success(&self) -> bool {
        matches!(self.outcome, Outcome::Done(_))
    }

    /// The output, if the call went well.
    pub fn output(&self) -> Option<&ToolOutput> {
        match &self.outcome {
            Outcome::Done(output) => Some(output),
            Outcome::Failed(_) => None,
        }
    }

    /// The failure, if the call failed.
    pub fn failure(&self) -> Option<&Failure> {
        match &self.outcome {
            Outcome::Done(_) => None,
            Outcome::Failed(failure) => Some(failure),
        }
    }

    /// The output, or the failure as an error.
    ///
    /// # Errors
    ///
    /// Fails with the [`Failure`] when the call failed.
    pub fn into_output(self) -> Result<ToolOutput, Failure> {
        match self.outcome {
            Outcome::Done(output) => Ok(output),
            Outcome::Failed(failure) => Err(failure),
        }
    }

    /// What the model reads: the output as text with its warnings, or the failure's message.
    pub fn model_text(&self) -> Cow<'_, str> {
        match &self.outcome {
            Outcome::Failed(failure) => Cow::Borrowed(&failure.message),
            Outcome::Done(output) if self.warnings.is_empty() => output.text(),
            Outcome::Done(output) => {
                Cow::Owned(format!("{}\nWarning: {}", output.text(), self.warnings.join("; ")))
            }
        }
    }

    /// The one JSON form of a result, for HTTP, sessions and `--json`:
    /// `{"success": bool, "result": any, "error": string | null, "warning": string | null}`.
    ///
    /// `result` is [`ToolOutput::to_value`], or null after a failure. Several warnings are joined by `"; "`.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::{Timestamp, ToolOutput, ToolResult};
    /// use serde_json::json;
    ///
    /// let output = ToolOutput::from("42").with_warning("rounded");
    /// let result = ToolResult::done("call_1", "double", output);
    /// assert_eq!(
    ///     result.to_json(),
    ///     json!({"success": true, "result": "42", "error": null, "warning": "rounded"})
    /// );
    /// ```
    pub fn to_json(&self) -> Value {
        let warning = (!self.warnings.is_empty()).then(|| self.warnings.join("; "));
        match &self.outcome {
            Outcome::Done(output) => {
                json!({"success": true, "result": output.to_value(), "error": null, "warning": warning})
            }
            Outcome::Failed(failure) => {
                json!({"success": false, "result": null, "error": failure.message, "warning": warning})
            }
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}
