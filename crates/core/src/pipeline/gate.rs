use serde_json::Value;

use crate::{Answer, Pending, PendingKind, ToolContext, ToolDefinition, ToolError, ToolOutput};

/// What the gate says to a call with these arguments.
pub(super) enum Passage {
    /// It may run with these.
    Open(Value),
    /// It need not run: the work was done elsewhere.
    Answered(ToolOutput),
    /// Somebody must be asked first.
    Waits(Pending),
}

/// The one place where a call is let through, refused or held.
pub(super) fn pass(
    definition: &ToolDefinition,
    arguments: Value,
    cx: &ToolContext,
) -> Result<Passage, ToolError> {
    if let Some(defect) = definition.defect() {
        return Err(ToolError::Fatal(format!("tool \"{}\" cannot be used: {defect}", definition.name())));
    }
    let policy = definition.policy();
    if let Some(scope) = policy.required_scopes.iter().find(|scope| !cx.has_scope(scope)) {
        return Err(ToolError::Denied(format!("the caller lacks the scope \"{scope}\"")));
    }
    match cx.answer() {
        Some(Answer::Denied { reason }) => Err(ToolError::Denied(reason.clone())),
        Some(Answer::Failed { message }) => Err(ToolError::Failed { message: message.clone(), source: None }),
        Some(Answer::Output { output }) => Ok(Passage::Answered(output.clone())),
        Some(Answer::Approved { arguments: Some(others) }) => {
            definition.input_schema().validate(others)?;
            Ok(Passage::Open(others.clone()))
        }
        None if policy.requires_approval => {
            Ok(Passage::Waits(Pending { kind: PendingKind::Approval { arguments }, state: Value::Null }))
        }
        Some(Answer::Approved { arguments: None } | Answer::Input { .. }) | None => {
            Ok(Passage::Open(arguments))
        }
    }
}
