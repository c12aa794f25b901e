//! Tool calls with their results, errors and pending states, as plain data.

mod approvals;
mod error;
mod output;
mod pending;
mod resumed;

use std::{borrow::Cow, fmt, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use haft_schema::{JsonText, Repair};

use crate::Timestamp;

pub use approvals::{ApprovalRule, Approvals, RememberFor};
pub use error::{BoxError, ToolError};
pub use output::{ToolOutput, ToolResponse};
pub use pending::{Decision, Decisions, Pending, PendingCall, PendingKind};
pub use resumed::{DecisionError, ResumedCall, ResumedCalls};

/// A call to a tool, requested by a model or by a program.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ToolCall {
    /// The id of the call, unique in its run. The result of the call has the same id.
    pub id: String,
    /// The name of the requested tool. There may be no tool with this name.
    pub name: String,
    /// The arguments, as received. Malformed JSON is kept as text. It is rejected when the call is
    /// executed.
    pub arguments: JsonText,
}

impl ToolCall {
    /// Creates a call. `arguments` is a JSON text or a JSON value.
    pub fn new(id: impl Into<String>, name: impl Into<String>, arguments: impl Into<JsonText>) -> Self {
        Self { id: id.into(), name: name.into(), arguments: arguments.into() }
    }

    /// Returns the arguments for a request that contains this call: unchanged if they are a JSON
    /// object, `{}` if they are empty, or else their text wrapped in an object.
    ///
    /// OpenAI accepts any text as arguments. llama.cpp, vLLM and others reject arguments that are
    /// not a JSON object, so a single malformed call would make every later request of the
    /// conversation fail.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_message::ToolCall;
    ///
    /// let call = ToolCall::new("call_1", "add", r#"{"x": 1"#);
    /// assert_eq!(call.arguments_object(), r#"{"malformed_arguments":"{\"x\": 1"}"#);
    /// ```
    pub fn arguments_object(&self) -> Cow<'_, str> {
        match self.arguments.value() {
            Ok(Value::Object(_)) => Cow::Borrowed(&self.arguments),
            _ if self.arguments.trim().is_empty() => Cow::Borrowed("{}"),
            _ => Cow::Owned(json!({"malformed_arguments": &*self.arguments}).to_string()),
        }
    }
}

/// Creates a call from its id, the tool name, and the arguments as a JSON text or a JSON value.
impl<I: Into<String>, N: Into<String>, A: Into<JsonText>> From<(I, N, A)> for ToolCall {
    fn from((id, name, arguments): (I, N, A)) -> Self {
        Self::new(id, name, arguments)
    }
}

/// The result of a tool call, as plain data. Serializing it to JSON and back yields an equal value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The id of the [`ToolCall`] that produced this result.
    pub call_id: String,
    /// The name of the tool, as requested in the call.
    pub name: String,
    /// The output of the call, or its failure.
    pub outcome: Outcome,
    /// Warnings about the call. The model receives only the warnings of successful calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The corrections that made invalid arguments valid, for example `"3"` to `3`. Empty if the
    /// arguments needed no correction or could not be corrected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repairs: Vec<Repair>,
    /// The start time of the call.
    pub started_at: Timestamp,
    /// The duration of the call, including the validation of the arguments.
    pub duration: Duration,
}

/// The output of a call, or its failure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "a call succeeds or fails")]
pub enum Outcome {
    /// The call succeeded with this output.
    Done(ToolOutput),
    /// The call failed.
    Failed(Failure),
}

/// The failure of a call: a kind for the program, and a message for the model.
///
/// The underlying error is not part of the failure. It is only logged with `tracing`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The kind of the failure.
    pub kind: FailureKind,
    /// The error message for the model.
    pub message: String,
    /// The output of a call that ran and failed, for programs: for example the structured content
    /// of an MCP result with `isError`. The message for the model contains its text. `None` if the
    /// failure has only a message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Box<ToolOutput>>,
}

impl Failure {
    /// Creates a failure with the text `message` for the model.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), output: None }
    }

    /// Sets the output of the call that failed.
    #[must_use]
    pub fn with_output(self, output: ToolOutput) -> Self {
        Self { output: Some(Box::new(output)), ..self }
    }
}

/// The kind of a failure. Each kind corresponds to a variant of [`ToolError`]. The kind of
/// [`ToolError::Inner`] is the kind of the nested failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FailureKind {
    /// The arguments are invalid. The pipeline rejects arguments that are too long, are malformed
    /// or violate the input schema, and the tool does not run. A tool can also reject arguments
    /// itself.
    InvalidArguments,
    /// The tool rejected the call and requests another call with different arguments.
    Retry,
    /// The tool failed, for example with an error or a panic.
    Failed,
    /// The call was denied, for example by a person or because of a missing scope.
    Denied,
    /// The deadline of the call passed. Side effects may have happened.
    TimedOut,
    /// The run was cancelled. Side effects may have happened.
    Cancelled,
    /// The tool does not exist.
    NotFound,
    /// The effect of the call is unknown, for example after a lost connection.
    Unconfirmed,
    /// A fatal error: the agent stops the run.
    Fatal,
}

impl ToolResult {
    /// Creates the result of a successful call. The start time is the current time, and the
    /// duration is zero.
    ///
    /// The warnings of `output` are moved to the result.
    pub fn done(call_id: impl Into<String>, name: impl Into<String>, output: ToolOutput) -> Self {
        Self::new(call_id.into(), name.into(), Outcome::Done(output))
    }

    /// Creates the result of a call that failed with `error`. The start time is the current time,
    /// and the duration is zero.
    pub fn failed(call_id: impl Into<String>, name: impl Into<String>, error: &ToolError) -> Self {
        Self::new(call_id.into(), name.into(), Outcome::Failed(error.into()))
    }

    /// Creates the result of a call that starts and ends now. The warnings of a successful
    /// `outcome` are moved to the result.
    fn new(call_id: String, name: String, mut outcome: Outcome) -> Self {
        let warnings = match &mut outcome {
            Outcome::Done(output) => std::mem::take(&mut output.warnings),
            Outcome::Failed(_) => Vec::new(),
        };
        let (started_at, duration) = (Timestamp::now(), Duration::ZERO);
        Self { call_id, name, outcome, warnings, repairs: Vec::new(), started_at, duration }
    }

    /// Returns `true` if the call succeeded.
    pub fn is_success(&self) -> bool {
        matches!(self.outcome, Outcome::Done(_))
    }

    /// Returns the output of the call. `None` if the call failed.
    pub fn output(&self) -> Option<&ToolOutput> {
        match &self.outcome {
            Outcome::Done(output) => Some(output),
            Outcome::Failed(_) => None,
        }
    }

    /// Returns the failure of the call. `None` if the call succeeded.
    pub fn failure(&self) -> Option<&Failure> {
        match &self.outcome {
            Outcome::Done(_) => None,
            Outcome::Failed(failure) => Some(failure),
        }
    }

    /// Returns the output of a successful call.
    ///
    /// # Errors
    ///
    /// Fails with the [`Failure`] of a failed call.
    pub fn into_output(self) -> Result<ToolOutput, Failure> {
        match self.outcome {
            Outcome::Done(output) => Ok(output),
            Outcome::Failed(failure) => Err(failure),
        }
    }

    /// Returns the text that is sent to the model: the output with its warnings, or the failure
    /// message.
    pub fn model_text(&self) -> Cow<'_, str> {
        match &self.outcome {
            Outcome::Failed(failure) => Cow::Borrowed(&failure.message),
            Outcome::Done(output) if self.warnings.is_empty() => output.text(),
            Outcome::Done(output) => {
                Cow::Owned(format!("{}\nWarning: {}", output.text(), self.warnings.join("; ")))
            }
        }
    }

    /// Returns the result as a JSON object, as printed by `haft call --json`:
    /// `{"success": bool, "result": any, "error": string | null, "warning": string | null}`.
    ///
    /// `result` is the value of [`ToolOutput::to_value`], or null if the call failed. Multiple
    /// warnings are joined with `; `. If a failed call has structured content, it is the additional
    /// member `structured`.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_message::{Timestamp, ToolOutput, ToolResult};
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
                let error = &failure.message;
                let mut result =
                    json!({"success": false, "result": null, "error": error, "warning": warning});
                if let Some(structured) =
                    failure.output.as_ref().and_then(|output| output.structured.as_ref())
                {
                    result["structured"] = structured.clone();
                }
                result
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
