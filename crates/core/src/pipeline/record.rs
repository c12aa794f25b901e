use std::error::Error as _;

use crate::{ToolCall, ToolContext, ToolDefinition, ToolError, ToolResult};

/// Is told of every call that ended, however it ended: for audits, metrics and sessions.
///
/// Called on the caller's task; must return quickly.
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

/// Makes the plain result of an error; its source goes to the trace and no further.
pub(super) fn failure(call: &ToolCall, error: &ToolError) -> ToolResult {
    let source = error.source().map(tracing::field::display);
    tracing::debug!(error.type = ?error.kind(), source, "the call failed");
    ToolResult::failed(&call.id, &call.name, error)
}
