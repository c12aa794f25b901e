use crate::call::{PendingCall, PendingKind, ToolCall, ToolError, ToolResponse, ToolResult};

/// The outcome of a tool call: a result, or a pending state.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a call is finished or pending")]
pub enum CallOutcome {
    /// The call succeeded or failed.
    Finished(ToolResult),
    /// The call is suspended until a decision arrives.
    Pending(PendingCall),
}

impl CallOutcome {
    pub(super) fn new(call: &ToolCall, response: ToolResponse) -> Self {
        match response {
            ToolResponse::Done(output) => Self::Finished(ToolResult::done(&call.id, &call.name, output)),
            ToolResponse::Pending(pending) => Self::Pending(PendingCall { call: call.clone(), pending }),
        }
    }

    /// Returns the id of the call.
    pub fn call_id(&self) -> &str {
        match self {
            Self::Finished(result) => &result.call_id,
            Self::Pending(pending) => &pending.call.id,
        }
    }

    /// Converts the outcome to a result, for callers that do not support suspended calls. A pending
    /// call becomes a failure.
    pub fn into_result(self) -> ToolResult {
        match self {
            Self::Finished(result) => result,
            Self::Pending(PendingCall { call, pending }) => {
                let error = match pending.kind {
                    PendingKind::Approval { .. } => ToolError::Denied(
                        "it needs an approval, and this caller cannot wait for one".to_owned(),
                    ),
                    PendingKind::Postponed => {
                        ToolError::failed("not run: an earlier call that must end first is suspended")
                    }
                    _ => ToolError::failed("it needs a decision, and this caller cannot wait for one"),
                };
                ToolResult::failed(call.id, call.name, &error)
            }
        }
    }
}
