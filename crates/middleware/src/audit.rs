//! Audit records of tool calls.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::redact::redact;
use haft_core::{
    Timestamp,
    call::{FailureKind, Outcome, PendingKind},
    pipeline::{CallOutcome, CallRecord, Recorder},
    text::escape_hidden_in_json,
    tool::Principal,
};

/// The audit record of a tool call, with redacted arguments. `Display` writes the record as one
/// line of JSON, in which hidden characters are escaped.
///
/// # Redaction
///
/// Possible secrets are replaced with `"[redacted]"`:
///
/// - members declared as `writeOnly` or with the format `password` in the tool's input schema
/// - members listed in the tool's [`ToolPolicy::redacted`](haft_core::tool::ToolPolicy::redacted)
/// - members whose name is typical of secrets or contains such a name, in any case and style. A
///   short name such as `pin` is recognized only as a whole word. Typical names are `password`,
///   `passphrase`, `secret`, `credential`, `api_key`, `private_key`, `access_key`, `authorization`,
///   `bearer`, `token`, `cookie`, `session_id`, `jwt`, `auth`, `pin`, `otp`, `cvv`, `ssn`,
///   `card_number` and similar names
///
/// Secrets are also redacted in nested objects, in arrays, in JSON inside a string, and in strings
/// that are headers, settings, command lines or URLs, such as `DB_PASSWORD=…`, `--password …`,
/// `-H 'Authorization: …'`, `curl -u ann:…` and the signature of a presigned URL, and in private
/// keys in PEM format. If the arguments are not a JSON object, or were rejected and exceed
/// [`ARGUMENT_BYTES`](haft_core::limits::ARGUMENT_BYTES), only their length is recorded. For a call
/// to an unknown tool, only the names of the arguments are recorded. Results and error messages are
/// never recorded, since they may repeat arguments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AuditEntry {
    /// The start time of the call.
    pub started_at: Timestamp,
    /// The duration of the call, in milliseconds.
    pub duration_ms: u64,
    /// The id of the run. Empty for a call outside a run.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub run_id: String,
    /// The id of the call, unique in its run. The id of a nested call starts with the id of the
    /// enclosing call, for example `call_1/2`.
    pub call_id: String,
    /// The principal of the call, with its scopes at the time of the call. `None` for a call
    /// without a principal.
    pub principal: Option<Principal>,
    /// The name of the tool, as received from the model or another caller. There may be no tool
    /// with this name.
    pub tool: String,
    /// The arguments after repairs and after changes by the person who approved the call, with
    /// secrets redacted.
    pub arguments: Value,
    /// The outcome of the call, without its result or error message.
    pub outcome: AuditOutcome,
    /// `true` if the call returned a cached result and the tool did not run.
    #[serde(rename = "cached", default, skip_serializing_if = "std::ops::Not::not")]
    pub is_cached: bool,
    /// `true` if the call was suspended earlier and has been resumed by a decision.
    #[serde(rename = "resumed", default, skip_serializing_if = "std::ops::Not::not")]
    pub is_resumed: bool,
}

/// The outcome of a tool call in an [`AuditEntry`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum AuditOutcome {
    /// The call succeeded.
    Done,
    /// The call failed or was denied.
    Failed {
        /// The kind of failure.
        kind: FailureKind,
    },
    /// The call was suspended. When it is resumed, another record with the same call id follows.
    Pending {
        /// The reason why the call was suspended.
        #[serde(rename = "waits_for")]
        reason: PendingReason,
    },
}

/// The reason why a call was suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PendingReason {
    /// The call waits for an approval by a person.
    Approval,
    /// The call waits for input from a person.
    Input,
    /// The call waits for the host program to execute an external tool and provide its output.
    External,
    /// The call waits for decisions about suspended calls nested in it, for example the calls of an
    /// agent used as a tool.
    Nested,
    /// The call waits for something that has no variant in this version of the crate.
    Other,
}

impl AuditEntry {
    /// Creates an audit record from `record`, as passed to a [`Recorder`] by the pipeline.
    pub fn from_record(record: &CallRecord<'_>) -> Self {
        let CallRecord { definition, call, context, .. } = record;
        Self {
            started_at: record.started_at,
            duration_ms: u64::try_from(record.duration.as_millis()).unwrap_or(u64::MAX),
            run_id: context.run_id().to_owned(),
            call_id: call.id.clone(),
            principal: context.principal().cloned(),
            tool: call.name.clone(),
            arguments: redact(*definition, &call.arguments, record.arguments().as_deref()),
            outcome: record.outcome.into(),
            is_cached: record.is_cached,
            is_resumed: context.resumed().is_some(),
        }
    }
}

impl From<&CallOutcome> for AuditOutcome {
    fn from(outcome: &CallOutcome) -> Self {
        match outcome {
            CallOutcome::Finished(result) => match &result.outcome {
                Outcome::Done(_) => Self::Done,
                Outcome::Failed(failure) => Self::Failed { kind: failure.kind },
            },
            CallOutcome::Pending(suspended) => Self::Pending {
                reason: match &suspended.pending.kind {
                    PendingKind::Approval { .. } => PendingReason::Approval,
                    PendingKind::Input { .. } => PendingReason::Input,
                    PendingKind::External => PendingReason::External,
                    PendingKind::Nested { .. } => PendingReason::Nested,
                    _ => PendingReason::Other,
                },
            },
        }
    }
}

/// Writes the record as one line of JSON.
impl fmt::Display for AuditEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&escape_hidden_in_json(&serde_json::to_string(self).map_err(|_| fmt::Error)?))
    }
}

/// A [`Recorder`] that creates an [`AuditEntry`] for each tool call and passes it to a function.
/// The function runs on the task of the caller, so it must return quickly. A suspended call gets
/// another entry each time it is resumed.
///
/// # Examples
///
/// ```
/// use std::sync::mpsc;
/// use haft_middleware::{AuditEntry, AuditLog};
/// use haft_core::{Pipeline, tool, Toolset};
/// use serde_json::json;
///
/// /// Transfers money.
/// #[tool]
/// fn pay(to: String, cents: u32, pin: String) -> String {
///     format!("{to} has {cents}")
/// }
///
/// let (entries, written) = mpsc::channel();
/// let audited = Pipeline::new().with_recorder(AuditLog::new(move |entry| {
///     // Fails if the receiver is gone.
///     let _ = entries.send(entry);
/// }));
/// let tools = Toolset::new().with_tool(Pay).with_pipeline(audited);
/// tools.call_blocking("pay", json!({"to": "Ann", "cents": 500, "pin": "1234"}));
///
/// let entry: AuditEntry = written.recv()?;
/// assert_eq!(entry.arguments, json!({"to": "Ann", "cents": 500, "pin": "[redacted]"}));
/// assert!(entry.to_string().starts_with(r#"{"started_at":"#));
/// # Ok::<(), mpsc::RecvError>(())
/// ```
pub struct AuditLog<F>(F);

impl<F: Fn(AuditEntry) + Send + Sync> AuditLog<F> {
    /// Creates a recorder that calls `write` with each audit record.
    pub fn new(write: F) -> Self {
        Self(write)
    }
}

impl<F: Fn(AuditEntry) + Send + Sync> Recorder for AuditLog<F> {
    fn record(&self, record: &CallRecord<'_>) {
        (self.0)(AuditEntry::from_record(record));
    }
}

impl<F> fmt::Debug for AuditLog<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuditLog").finish_non_exhaustive()
    }
}
