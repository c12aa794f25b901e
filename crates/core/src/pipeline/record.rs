use std::{
    borrow::Cow,
    error::Error as _,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde_json::Value;
use tokio::time::Instant;

use super::CallOutcome;
use crate::{
    Timestamp,
    call::{Outcome, ToolCall, ToolError, ToolResult},
    panic_log::log_panic_text,
    text::without_hidden_chars,
    tool::{FailedCall, FailureHook, ToolContext, ToolDefinition},
};

/// A receiver for the records of all tool calls, for example for audits, metrics and saved
/// sessions.
///
/// If the recorder panics, the panic is logged and does not affect the call.
///
/// # Examples
///
/// A counter of failed calls:
///
/// ```
/// use std::sync::{Arc, atomic::{AtomicUsize, Ordering}};
/// use haft_core::{Pipeline, Toolset, pipeline::{CallRecord, Recorder}};
/// use serde_json::json;
///
/// struct FailureCounter(Arc<AtomicUsize>);
///
/// impl Recorder for FailureCounter {
///     fn record(&self, record: &CallRecord<'_>) {
///         if record.result().is_some_and(|result| !result.is_success()) {
///             self.0.fetch_add(1, Ordering::Relaxed);
///         }
///     }
/// }
///
/// let failures = Arc::new(AtomicUsize::new(0));
/// let pipeline = Pipeline::new().with_recorder(FailureCounter(Arc::clone(&failures)));
/// let tools = Toolset::new().with_pipeline(pipeline);
/// tools.call_blocking("missing_tool", json!({}));
/// assert_eq!(failures.load(Ordering::Relaxed), 1);
/// ```
pub trait Recorder: Send + Sync {
    /// Receives the record of a finished or pending call. The method runs on the task of the
    /// caller, so it must return quickly.
    fn record(&self, record: &CallRecord<'_>);
}

impl<R: Recorder + ?Sized> Recorder for Arc<R> {
    fn record(&self, record: &CallRecord<'_>) {
        R::record(self, record);
    }
}

/// The record of a tool call, as passed to a [`Recorder`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CallRecord<'a> {
    /// The definition of the called tool. `None` if the tool is unknown or its definition panicked.
    pub definition: Option<&'a ToolDefinition>,
    /// The call as received, before repairs. Its arguments may contain secrets.
    /// `haft_middleware::AuditEntry` redacts them.
    pub call: &'a ToolCall,
    /// The context of the call.
    pub context: &'a ToolContext,
    /// The result or the pending state. If the future of the call was dropped, the outcome is
    /// [cancelled](crate::call::FailureKind::Cancelled), but side effects may already have
    /// happened.
    pub outcome: &'a CallOutcome,
    /// `true` if the result comes from a cache (`haft_middleware::ResultCache`) and the tool did
    /// not run.
    pub is_cached: bool,
    /// The start time of the call.
    pub started_at: Timestamp,
    /// The duration of the call.
    pub duration: Duration,
    arguments: &'a RecordedArguments,
}

impl<'a> CallRecord<'a> {
    /// Returns the validated arguments: the arguments after repairs, or the approved arguments if a
    /// person changed them. `None` if the arguments are invalid, or if the call ended before they
    /// were validated.
    pub fn arguments(&self) -> Option<Cow<'a, Value>> {
        match self.arguments {
            RecordedArguments::None => None,
            RecordedArguments::AsReceived => self.call.arguments.value().ok().map(Cow::Borrowed),
            RecordedArguments::Changed(value) => Some(Cow::Borrowed(value)),
        }
    }

    /// Returns the result. `None` for a pending call.
    pub fn result(&self) -> Option<&ToolResult> {
        match self.outcome {
            CallOutcome::Finished(result) => Some(result),
            CallOutcome::Pending(_) => None,
        }
    }
}

/// The validated arguments of a call, kept for the [`CallRecord`].
#[derive(Debug, Default)]
pub(super) enum RecordedArguments {
    /// The arguments are invalid, or have not been validated yet.
    #[default]
    None,
    /// The arguments are valid as received. [`CallRecord::call`] contains them.
    AsReceived,
    /// The arguments were repaired, or an approval replaced them. Contains the new arguments.
    Changed(Value),
}

pub(super) type ArgumentSlot = Mutex<RecordedArguments>;

/// A guard that records a call exactly once. [`finish`](Self::finish) records the outcome of the
/// call. If the guard is dropped without `finish`, because the future of the call was dropped, the
/// call is recorded as cancelled.
pub(super) struct RecordGuard<'a> {
    pub(super) recorders: &'a [Arc<dyn Recorder>],
    pub(super) definition: Option<&'a ToolDefinition>,
    pub(super) call: &'a ToolCall,
    pub(super) arguments: &'a ArgumentSlot,
    pub(super) context: &'a ToolContext,
    pub(super) started_at: Timestamp,
    pub(super) started: Instant,
    pub(super) is_recorded: bool,
}

impl RecordGuard<'_> {
    pub(super) fn finish(mut self, outcome: &CallOutcome, is_cached: bool) {
        self.is_recorded = true;
        self.record(outcome, is_cached);
    }

    fn record(&self, outcome: &CallOutcome, is_cached: bool) {
        let Self { recorders, definition, call, context, started_at, .. } = *self;
        let arguments = self.arguments.lock().unwrap_or_else(PoisonError::into_inner);
        let record = CallRecord {
            definition,
            call,
            arguments: &arguments,
            context,
            outcome,
            is_cached,
            started_at,
            duration: self.started.elapsed(),
        };
        for recorder in recorders {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| recorder.record(&record))) {
                tracing::error!(call = call.id, "the recorder panicked, the call is not recorded");
                log_panic_text(&*panic);
            }
        }
    }
}

impl Drop for RecordGuard<'_> {
    fn drop(&mut self) {
        if !self.is_recorded {
            let Self { call, .. } = self;
            let mut dropped = ToolResult::failed(&call.id, &call.name, &ToolError::Cancelled);
            (dropped.started_at, dropped.duration) = (self.started_at, self.started.elapsed());
            self.record(&CallOutcome::Finished(dropped), false);
        }
    }
}

/// Converts `error` to the outcome of `call`. The source of the error is logged, but the outcome
/// does not contain it. The first of `hooks` that returns a failure replaces the failure.
pub(super) fn failed_outcome<'a>(
    call: &ToolCall,
    error: &ToolError,
    definition: Option<&ToolDefinition>,
    context: &ToolContext,
    hooks: impl Iterator<Item = &'a FailureHook>,
) -> CallOutcome {
    let source = error.source();
    // The source may contain text from a server.
    let logged = || source.map(|source| without_hidden_chars(&source.to_string()).into_owned());
    tracing::debug!(error.type = ?error.kind(), source = logged(), "the call failed");
    let mut result = ToolResult::failed(&call.id, &call.name, error);
    if let Outcome::Failed(failure) = &mut result.outcome {
        let failed = FailedCall { call, definition, failure: &*failure, source, context };
        if let Some(replacement) = hooks.filter_map(|hook| hook.replacement(&failed)).next() {
            *failure = replacement;
        }
    }
    CallOutcome::Finished(result)
}
