use serde_json::Value;

use crate::{
    call::{Decision, Pending, PendingKind, Resumed, ToolError, ToolOutput},
    tool::{ToolContext, ToolDefinition},
};

/// What the gate says to a call with these arguments.
pub(super) enum Passage {
    /// It may run with these arguments.
    Open {
        arguments: Value,
        /// The same, where somebody permitted them.
        approved: Option<Value>,
        /// Whether they are other ones than the model gave.
        are_others: bool,
    },
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
    let approved = match cx.decision() {
        Some(Decision::Denied { reason }) => return Err(ToolError::Denied(reason.clone())),
        Some(Decision::Failed { message }) => {
            return Err(ToolError::Failed { message: message.clone(), source: None });
        }
        Some(Decision::Output { output }) => return Ok(Passage::Answered(output.clone())),
        Some(Decision::Approved { .. } | Decision::Input { .. } | Decision::Nested { .. }) | None => {
            cx.resumed().and_then(Resumed::approved)
        }
    };
    match approved {
        Some(_) if policy.requires_approval && is_another(definition, cx) => Ok(waits(definition, arguments)),
        Some(approved) => {
            definition.input_schema().validate(approved)?;
            let are_others = *approved != arguments;
            Ok(Passage::Open { arguments: approved.clone(), approved: Some(approved.clone()), are_others })
        }
        None if policy.requires_approval => Ok(waits(definition, arguments)),
        None => Ok(Passage::Open { arguments, approved: None, are_others: false }),
    }
}

fn waits(definition: &ToolDefinition, arguments: Value) -> Passage {
    let mut pending = Pending::new(PendingKind::Approval { arguments });
    pending.definition = Some(definition.fingerprint());
    Passage::Waits(pending)
}

/// Whether the tool says something else than when somebody permitted the call.
fn is_another(definition: &ToolDefinition, cx: &ToolContext) -> bool {
    let asked = cx.resumed().and_then(|resumed| resumed.pending().definition.as_ref());
    asked.is_some_and(|asked| *asked != definition.fingerprint())
}
