use serde_json::Value;

use crate::{
    call::{Decision, Pending, PendingKind, ResumedCall, ToolError, ToolOutput},
    tool::{ToolContext, ToolDefinition},
};

/// The outcome of the gate, the pipeline step that permits, denies or suspends a call. A denial is
/// not a variant: [`check`] returns an error for a denied call.
pub(super) enum GateOutcome {
    /// The call is permitted and must now run.
    Run {
        arguments: Value,
        /// A copy of `arguments` if they were approved. `None` without an approval.
        approved: Option<Value>,
        /// `true` if the approval changed the arguments.
        is_changed: bool,
    },
    /// The call must not run, because the decision about the call already contains the output.
    Done(ToolOutput),
    /// The call is suspended until it is approved or denied.
    Suspended(Pending),
}

/// Permits, denies or suspends a call, depending on the scopes of the principal, the decision about
/// the call, and the tool's policy. Fails if the call is denied, if the tool has a defect, if
/// approved arguments are invalid, or if the host program could not execute an external tool.
pub(super) fn check(
    definition: &ToolDefinition,
    arguments: Value,
    cx: &ToolContext,
) -> Result<GateOutcome, ToolError> {
    if let Some(defect) = definition.defect() {
        return Err(ToolError::Fatal(format!("tool \"{}\" cannot be used: {defect}", definition.name())));
    }
    let policy = definition.policy();
    if let Some(scope) = policy.required_scopes.iter().find(|scope| !cx.has_scope(scope)) {
        return Err(ToolError::Denied(format!("the caller lacks the scope \"{scope}\"")));
    }
    let approved = match cx.decision() {
        Some(Decision::Denied { reason, .. }) if !handles_denial(cx) => {
            return Err(ToolError::Denied(reason.clone()));
        }
        Some(Decision::Failed { message }) => {
            return Err(ToolError::Failed { message: message.clone(), source: None });
        }
        Some(Decision::Output { output }) => return Ok(GateOutcome::Done(output.clone())),
        // No decision, or one that the tool reads: an approval, an input, a denial that the tool
        // handles, or a decision about nested calls.
        _ => cx.resumed().and_then(ResumedCall::approved_arguments),
    };
    match approved {
        Some(_) if policy.requires_approval && has_changed(definition, cx) => {
            Ok(request_approval(definition, arguments))
        }
        Some(approved) => {
            definition.input_schema().validate(approved)?;
            let is_changed = *approved != arguments;
            Ok(GateOutcome::Run { arguments: approved.clone(), approved: Some(approved.clone()), is_changed })
        }
        None if policy.requires_approval => match remembered_decision(definition, &arguments, cx) {
            Some(Decision::Denied { reason, .. }) => Err(ToolError::Denied(reason)),
            Some(_) => {
                let approved = Some(arguments.clone());
                Ok(GateOutcome::Run { arguments, approved, is_changed: false })
            }
            None => Ok(request_approval(definition, arguments)),
        },
        None => Ok(GateOutcome::Run { arguments, approved: None, is_changed: false }),
    }
}

fn request_approval(definition: &ToolDefinition, arguments: Value) -> GateOutcome {
    let mut pending = Pending::new(PendingKind::Approval { arguments });
    pending.definition = Some(definition.fingerprint());
    GateOutcome::Suspended(pending)
}

/// Returns the decision about an earlier call that also covers this call.
fn remembered_decision(definition: &ToolDefinition, arguments: &Value, cx: &ToolContext) -> Option<Decision> {
    let approvals = cx.run_context().approvals.as_ref()?;
    let fingerprint = || Some(definition.fingerprint());
    let principal = cx.principal().map(|it| it.id.as_str());
    approvals.decision(principal, definition.name().as_str(), fingerprint, arguments)
}

/// Returns `true` if the tool handles a denial of the requested input itself.
fn handles_denial(cx: &ToolContext) -> bool {
    cx.resumed()
        .map(ResumedCall::pending)
        .is_some_and(|pending| pending.handles_denial && matches!(pending.kind, PendingKind::Input { .. }))
}

/// Returns `true` if the definition of the tool has changed since the approval was requested.
fn has_changed(definition: &ToolDefinition, cx: &ToolContext) -> bool {
    let approved = cx.resumed().and_then(|resumed| resumed.pending().definition.as_ref());
    approved.is_some_and(|fingerprint| *fingerprint != definition.fingerprint())
}
