use std::{
    error::Error as _,
    panic::{AssertUnwindSafe, catch_unwind},
};

use super::CallOutcome;
use crate::{ToolCall, ToolContext, ToolDefinition, ToolError, ToolResult};

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
    /// What was asked for. Its arguments may hold secrets of the caller.
    pub call: &'a ToolCall,
    /// For whom.
    pub context: &'a ToolContext,
    /// What came of it: a result, or that it waits. A call that its caller dropped is a
    /// [cancelled](crate::FailureKind::Cancelled) one; an effect that was under way may have happened.
    pub outcome: &'a CallOutcome,
    /// Whether the result is that of an earlier call, out of a [`ResultCache`](crate::ResultCache): the tool did not run.
    pub is_cached: bool,
}

impl CallRecord<'_> {
    /// The result, unless the call waits.
    pub fn result(&self) -> Option<&ToolResult> {
        match self.outcome {
            CallOutcome::Finished(result) => Some(result),
            CallOutcome::Pending(_) => None,
        }
    }
}

/// Sees to it that a call is on record, also when it is dropped.
pub(super) struct Recording<'a> {
    pub(super) recorder: &'a dyn Recorder,
    pub(super) definition: Option<&'a ToolDefinition>,
    pub(super) call: &'a ToolCall,
    pub(super) context: &'a ToolContext,
    pub(super) is_over: bool,
}

impl Recording<'_> {
    pub(super) fn end(mut self, outcome: &CallOutcome, is_cached: bool) {
        self.is_over = true;
        self.record(outcome, is_cached);
    }

    fn record(&self, outcome: &CallOutcome, is_cached: bool) {
        let Self { recorder, definition, call, context, .. } = self;
        let record = CallRecord { definition: *definition, call, context, outcome, is_cached };
        if catch_unwind(AssertUnwindSafe(|| recorder.record(&record))).is_err() {
            tracing::error!(call = call.id, "the recorder panicked: this call is not on record");
        }
    }
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            let Self { call, .. } = self;
            let dropped = ToolResult::failed(&call.id, &call.name, &ToolError::Cancelled);
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
