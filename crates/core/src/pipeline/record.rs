use std::{
    error::Error as _,
    panic::{AssertUnwindSafe, catch_unwind},
};

use crate::{ToolCall, ToolContext, ToolDefinition, ToolError, ToolResult};

/// Is told of every call that has a result: for audits, metrics and sessions. A call that waits has none yet, and
/// one that is dropped never has.
///
/// Called on the caller's task; must return quickly. A panic of the recorder costs its record only.
pub trait Recorder: Send + Sync {
    /// Takes one call.
    fn record(&self, record: &CallRecord<'_>);
}

/// A call that ended.
#[derive(Clone, Copy, Debug)]
pub struct CallRecord<'a> {
    /// The tool, if there is one of that name.
    pub definition: Option<&'a ToolDefinition>,
    /// What was asked for. Its arguments may hold secrets of the caller.
    pub call: &'a ToolCall,
    /// For whom.
    pub context: &'a ToolContext,
    /// What came of it.
    pub result: &'a ToolResult,
}

pub(super) fn record(recorder: &dyn Recorder, record: &CallRecord<'_>) {
    if catch_unwind(AssertUnwindSafe(|| recorder.record(record))).is_err() {
        tracing::error!(call = record.call.id, "the recorder panicked: this call is not on record");
    }
}

/// Makes the plain result of an error; its source goes to the trace and no further.
pub(super) fn failure(call: &ToolCall, error: &ToolError) -> ToolResult {
    let source = error.source().map(tracing::field::display);
    tracing::debug!(error.type = ?error.kind(), source, "the call failed");
    ToolResult::failed(&call.id, &call.name, error)
}
