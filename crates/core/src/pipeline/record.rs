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
    call::{ToolCall, ToolError, ToolResult},
    tool::{ToolContext, ToolDefinition},
};

/// Is told of every call, whatever came of it: for audits, metrics and sessions.
///
/// Called on the caller's task, once for each call; must return quickly. A panic of the recorder costs its record only.
pub trait Recorder: Send + Sync {
    /// Takes one call.
    fn record(&self, record: &CallRecord<'_>);
}

/// A call that was made.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CallRecord<'a> {
    /// The tool, if there is one of that name.
    pub definition: Option<&'a ToolDefinition>,
    /// What was asked for. Its arguments may hold secrets of the caller: an `haft_middleware::Audit` has none.
    pub call: &'a ToolCall,
    /// For whom.
    pub context: &'a ToolContext,
    /// What came of it: a result, or that it waits. A call that its caller dropped is a
    /// [cancelled](crate::call::FailureKind::Cancelled) one; an effect that was under way may have happened.
    pub outcome: &'a CallOutcome,
    /// Whether the result is that of an earlier call, out of a `haft_middleware::ResultCache`: the tool did not run.
    pub is_cached: bool,
    /// When the call began.
    pub started_at: Timestamp,
    /// How long it took.
    pub duration: Duration,
    understood: &'a Arguments,
}

impl<'a> CallRecord<'a> {
    /// The arguments that the tool was called with, or would have been: read, repaired, and those that were approved where that
    /// was with others. Nothing where those that came do not fit.
    pub fn arguments(&self) -> Option<Cow<'a, Value>> {
        match self.understood {
            Arguments::None => None,
            Arguments::AsTheyCame => self.call.arguments.value().ok().map(Cow::Borrowed),
            Arguments::Others(value) => Some(Cow::Borrowed(value)),
        }
    }

    /// The result, unless the call waits.
    pub fn result(&self) -> Option<&ToolResult> {
        match self.outcome {
            CallOutcome::Finished(result) => Some(result),
            CallOutcome::Pending(_) => None,
        }
    }
}

/// The arguments of a call as they were understood, for whoever keeps a record of it.
#[derive(Debug, Default)]
pub(super) enum Arguments {
    /// They do not fit, or were not looked at.
    #[default]
    None,
    /// What the text says.
    AsTheyCame,
    /// What was made of them.
    Others(Value),
}

pub(super) type Understood = Mutex<Arguments>;

/// Sees to it that a call is on record, also when it is dropped.
pub(super) struct Recording<'a> {
    pub(super) recorders: &'a [Arc<dyn Recorder>],
    pub(super) definition: Option<&'a ToolDefinition>,
    pub(super) call: &'a ToolCall,
    pub(super) arguments: &'a Understood,
    pub(super) context: &'a ToolContext,
    pub(super) started_at: Timestamp,
    pub(super) started: Instant,
    pub(super) is_over: bool,
}

impl Recording<'_> {
    pub(super) fn end(mut self, outcome: &CallOutcome, is_cached: bool) {
        self.is_over = true;
        self.record(outcome, is_cached);
    }

    fn record(&self, outcome: &CallOutcome, is_cached: bool) {
        let Self { recorders, definition, call, context, started_at, .. } = *self;
        let arguments = self.arguments.lock().unwrap_or_else(PoisonError::into_inner);
        let record = CallRecord {
            definition,
            call,
            understood: &arguments,
            context,
            outcome,
            is_cached,
            started_at,
            duration: self.started.elapsed(),
        };
        for recorder in recorders {
            if catch_unwind(AssertUnwindSafe(|| recorder.record(&record))).is_err() {
                tracing::error!(call = call.id, "the recorder panicked: this call is not on record");
            }
        }
    }
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            let Self { call, .. } = self;
            let mut dropped = ToolResult::failed(&call.id, &call.name, &ToolError::Cancelled);
            (dropped.started_at, dropped.duration) = (self.started_at, self.started.elapsed());
            self.record(&CallOutcome::Finished(dropped), false);
        }
    }
}

/// Makes the outcome of an error: plain data. Its source goes to the trace and no further.
pub(super) fn failed(call: &ToolCall, error: &ToolError) -> CallOutcome {
    let source = error.source().map(tracing::field::display);
    tracing::debug!(error.type = ?error.kind(), source, "the call failed");
    CallOutcome::Finished(ToolResult::failed(&call.id, &call.name, error))
}
