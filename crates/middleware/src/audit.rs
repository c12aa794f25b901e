//! Audit records of tool calls.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::redact::redact;
use haft_core::{
    Timestamp,
    call::{FailureKind, Outcome, PendingKind},
    pipeline::{CallOutcome, CallRecord, Recorder},
    tool::Principal,
};

/// The audit record of a call: caller, tool, redacted arguments, outcome and duration. `Display`
/// writes one line of JSON.
///
/// # Redaction
///
/// Values that may be secret are replaced by `"[redacted]"`:
///
/// - members that the tool's schema declares as `writeOnly` or with the format `password`
/// - members in the tool's [`ToolPolicy::redacted`](haft_core::tool::ToolPolicy::redacted)
/// - members with a typical name of a secret, in any case and style and as a part of a name:
///   `password`, `passphrase`, `secret`, `credential`, `api_key`, `private_key`, `access_key`,
///   `authorization`, `bearer`, `token`, `cookie`, `session_id`, `jwt`, `auth`, `pin`, `otp`,
///   `cvv`, `ssn`, `card_number` and similar names
///
/// This includes nested objects, lists, and strings that contain JSON. Arguments that are not a
/// JSON object are never recorded, and of a call to an unknown tool only the names of the
/// arguments. Results and error messages are not recorded, since they may repeat arguments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Audit {
    /// Start of the call.
    pub started_at: Timestamp,
    /// Duration of the call, in milliseconds.
    pub duration_ms: u64,
    /// Id of the run. Empty outside a run.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub run_id: String,
    /// Id of the call within its run. The id of a nested call starts with the id of its parent.
    pub call_id: String,
    /// The principal of the call, with its scopes at that time.
    pub principal: Option<Principal>,
    /// The tool name as the caller wrote it.
    pub tool: String,
    /// The redacted arguments, after repairs and with the changes of an approval.
    pub arguments: Value,
    /// The outcome, without results and messages.
    pub outcome: AuditOutcome,
    /// Set if a cached result was returned and the tool did not run.
    #[serde(rename = "cached", default, skip_serializing_if = "std::ops::Not::not")]
    pub is_cached: bool,
    /// Set if the call resumed after a decision.
    #[serde(rename = "resumed", default, skip_serializing_if = "std::ops::Not::not")]
    pub is_resumed: bool,
}

/// The outcome of an audited call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum AuditOutcome {
    /// The call succeeded.
    Done,
    /// The call failed or was rejected.
    Failed {
        /// The kind of failure.
        kind: FailureKind,
    },
    /// The call was suspended. A later record with the same id has the final outcome.
    Pending {
        /// The reason for the suspension.
        waits_for: PendingReason,
    },
}

/// The reason for a suspension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PendingReason {
    /// Approval by a person.
    Approval,
    /// Input from a person.
    Input,
    /// Work that the host program performs.
    External,
    /// Nested calls that are suspended.
    Nested,
    /// A kind of suspension that this version does not know.
    Other,
}

impl Audit {
    /// Creates the audit record of a call.
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
                waits_for: match &suspended.pending.kind {
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

/// Formats the record as one line of JSON.
impl fmt::Display for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

/// A recorder that passes the [`Audit`] of each call to a function, exactly once. The function runs
/// as a part of the call, so it must return quickly.
///
/// # Examples
///
/// ```
/// use std::sync::mpsc;
/// use haft_middleware::{Audit, AuditLog};
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
/// let tools = Toolset::new().with(Pay).with_pipeline(audited);
/// tools.call_blocking("pay", json!({"to": "Ann", "cents": 500, "pin": "1234"}));
///
/// let entry: Audit = written.recv()?;
/// assert_eq!(entry.arguments, json!({"to": "Ann", "cents": 500, "pin": "[redacted]"}));
/// assert!(entry.to_string().starts_with(r#"{"started_at":"#));
/// # Ok::<(), mpsc::RecvError>(())
/// ```
pub struct AuditLog<F>(F);

impl<F: Fn(Audit) + Send + Sync> AuditLog<F> {
    /// Creates a log that writes records with a function.
    pub fn new(write: F) -> Self {
        Self(write)
    }
}

impl<F: Fn(Audit) + Send + Sync> Recorder for AuditLog<F> {
    fn record(&self, record: &CallRecord<'_>) {
        (self.0)(Audit::from_record(record));
    }
}

impl<F> fmt::Debug for AuditLog<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuditLog").finish_non_exhaustive()
    }
}
