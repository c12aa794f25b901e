//! Who called what, as a line of a log.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::redact::redacted;
use haft_core::{
    Timestamp,
    call::{FailureKind, Outcome, PendingKind},
    pipeline::{CallOutcome, CallRecord, Recorder},
    tool::Principal,
};

/// One call, as an audit keeps it: who called which tool with which arguments, what came of it, and how long it took. As text it is
/// one line of JSON.
///
/// Of the arguments, what may be secret is replaced by `"[redacted]"`: what the tool's schema declares `writeOnly` or of the
/// format `password`, what its policy [lists](haft_core::tool::Policy::redacted), and what is called as secrets usually are (`password`, `passphrase`, `secret`,
/// `credential`, `api_key`, `private_key`, `access_key`, `authorization`, `bearer`, `token`, `cookie`, `session_id`, `jwt`, `auth`, `pin`, `otp`, `cvv`, `ssn`,
/// `card_number` and the like, also as a part of a name, in any case and style). That goes for objects in objects, in lists, and in
/// text that is JSON. What is no JSON object is never shown, nor the values for a tool that there is not. What a tool
/// answered and what a failure says are not there either: they may repeat what they were given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Audit {
    /// When the call began.
    pub started_at: Timestamp,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// The run; empty outside a run.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub run_id: String,
    /// The call in its run. Calls inside another have its id before theirs.
    pub call_id: String,
    /// On whose behalf, with the scopes at that time.
    pub principal: Option<Principal>,
    /// The tool's name, as the caller wrote it.
    pub tool: String,
    /// The arguments that the tool was called with, or would have been.
    pub arguments: Value,
    /// What came of it.
    pub outcome: AuditOutcome,
    /// Whether it was answered with an earlier result: the tool did not run.
    #[serde(rename = "cached", default, skip_serializing_if = "std::ops::Not::not")]
    pub is_cached: bool,
    /// Whether it went on with an answer that it had waited for.
    #[serde(rename = "resumed", default, skip_serializing_if = "std::ops::Not::not")]
    pub is_resumed: bool,
}

/// What came of a call, without what was said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum AuditOutcome {
    /// It went well.
    Done,
    /// It failed, or was refused.
    Failed {
        /// Why.
        kind: FailureKind,
    },
    /// It waits. When it goes on, that is another entry of the same id.
    Pending {
        /// For what.
        waits_for: WaitsFor,
    },
}

/// What a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WaitsFor {
    /// A person's permission.
    Approval,
    /// A person's answer.
    Input,
    /// Work that the host program does itself.
    External,
    /// Calls inside it, which wait in their turn.
    Nested,
    /// A kind of wait that this version does not know.
    Other,
}

impl Audit {
    /// Makes the entry of a call.
    pub fn of(record: &CallRecord<'_>) -> Self {
        let CallRecord { definition, call, context, .. } = record;
        Self {
            started_at: record.started_at,
            duration_ms: u64::try_from(record.duration.as_millis()).unwrap_or(u64::MAX),
            run_id: context.run_id().to_owned(),
            call_id: call.id.clone(),
            principal: context.principal().cloned(),
            tool: call.name.clone(),
            arguments: redacted(*definition, &call.arguments, record.arguments().as_deref()),
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
            CallOutcome::Pending(waits) => Self::Pending {
                waits_for: match &waits.pending.kind {
                    PendingKind::Approval { .. } => WaitsFor::Approval,
                    PendingKind::Input { .. } => WaitsFor::Input,
                    PendingKind::External => WaitsFor::External,
                    PendingKind::Nested { .. } => WaitsFor::Nested,
                    _ => WaitsFor::Other,
                },
            },
        }
    }
}

/// One line of JSON.
impl fmt::Display for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

/// A recorder that makes an [`Audit`] of each call, and gives it to a function, once. The function must return quickly.
///
/// # Examples
///
/// ```
/// use std::sync::mpsc;
/// use haft_middleware::{Audit, AuditLog};
/// use haft_core::{Pipeline, tool, Toolset};
/// use serde_json::json;
///
/// /// Pays somebody.
/// #[tool]
/// fn pay(to: String, cents: u32, pin: String) -> String {
///     format!("{to} has {cents}")
/// }
///
/// let (entries, written) = mpsc::channel();
/// let audited = Pipeline::new().with_recorder(AuditLog::new(move |entry| {
///     // Nobody reads it any more when this fails.
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
    /// Makes a log of what takes its entries.
    pub fn new(write: F) -> Self {
        Self(write)
    }
}

impl<F: Fn(Audit) + Send + Sync> Recorder for AuditLog<F> {
    fn record(&self, record: &CallRecord<'_>) {
        (self.0)(Audit::of(record));
    }
}

impl<F> fmt::Debug for AuditLog<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuditLog").finish_non_exhaustive()
    }
}
