use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Decision, Decisions, Pending, PendingCall, PendingKind};
use haft_schema::Schema;

/// A suspended call that is about to be resumed: its pending state, and a decision that is valid
/// for this state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "UncheckedResumed")]
pub struct ResumedCall {
    pending: Pending,
    decision: Decision,
}

/// The pending states and decisions of resumed calls, by call id.
pub type ResumedCalls = BTreeMap<String, ResumedCall>;

/// The reason why a decision does not match a suspended call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecisionError {
    /// The call waits for another kind of decision.
    #[error("the call needs {expected}")]
    WrongKind {
        /// A description of the decisions that the call accepts, for example
        /// `an approval or a denial`.
        expected: &'static str,
    },
    /// The call id of a nested decision is unknown: no call with this id is suspended inside the
    /// call.
    #[error("no call {id:?} is suspended inside the call; suspended: {suspended}")]
    UnknownCall {
        /// The id in the decision.
        id: String,
        /// The ids of the calls that need a decision, separated by commas.
        suspended: String,
    },
    /// The input violates the schema of [`PendingKind::Input`], or the schema itself is invalid.
    /// Contains a description of the problem.
    #[error("invalid input: {0}")]
    InvalidInput(String),
}

impl Pending {
    /// Checks that `decision` is valid for the suspended call, and combines the decision with this
    /// pending state.
    ///
    /// An approval is bound to fixed arguments: the arguments in the decision, or else the
    /// arguments in [`PendingKind::Approval`]. The call runs with exactly these arguments. They are
    /// validated again, but not repaired.
    ///
    /// # Errors
    ///
    /// Fails if the call waits for another kind of decision, if an input violates its schema or the
    /// schema is invalid, or if a nested decision is invalid or has an unknown call id. A denial is
    /// valid for every call.
    pub fn resume(self, decision: Decision) -> Result<ResumedCall, DecisionError> {
        let decision = match (&self.kind, decision) {
            (_, decision @ Decision::Denied { .. }) => decision,
            (PendingKind::Approval { arguments }, Decision::Approved { arguments: changed, remember }) => {
                let arguments = Some(changed.unwrap_or_else(|| arguments.clone()));
                Decision::Approved { arguments, remember }
            }
            (PendingKind::Input { schema, .. }, Decision::Input { value }) => {
                check_input(schema, &value)?;
                Decision::Input { value }
            }
            (PendingKind::External, decision @ (Decision::Output { .. } | Decision::Failed { .. })) => {
                decision
            }
            (PendingKind::Nested { pending }, Decision::Nested { decisions }) => {
                check_nested(pending, &decisions)?;
                Decision::Nested { decisions }
            }
            (kind, _) => return Err(DecisionError::WrongKind { expected: kind.needed_decision() }),
        };
        Ok(ResumedCall { pending: self, decision })
    }
}

impl ResumedCall {
    /// Returns the pending state of the suspended call.
    pub fn pending(&self) -> &Pending {
        &self.pending
    }

    /// Returns the decision about the suspended call.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// Returns the approved arguments, from this decision or from an earlier approval of the same
    /// call. `None` if the call was never approved.
    pub fn approved_arguments(&self) -> Option<&Value> {
        match &self.decision {
            Decision::Approved { arguments, .. } => arguments.as_ref(),
            _ => self.pending.approved.as_ref(),
        }
    }

    /// Returns the arguments that the approver changed. `None` if the approver left the arguments
    /// unchanged, or if the decision is not an approval.
    pub fn changed_arguments(&self) -> Option<&Value> {
        match (&self.pending.kind, &self.decision) {
            (
                PendingKind::Approval { arguments: shown },
                Decision::Approved { arguments: Some(approved), .. },
            ) => (shown != approved).then_some(approved),
            _ => None,
        }
    }
}

impl PendingKind {
    /// Returns a description of the accepted decisions for error messages, for example
    /// `an approval or a denial`.
    pub fn needed_decision(&self) -> &'static str {
        match self {
            Self::Approval { .. } => "an approval or a denial",
            Self::Input { .. } => "the input of a person or a denial",
            Self::External => "an output, a failure or a denial",
            Self::Nested { .. } => "decisions about the calls inside it",
            Self::Postponed => "decisions about earlier calls",
        }
    }
}

/// Checks `decisions`. Each id must belong to a call in `pending`, or to one of its nested calls,
/// and the decision must be valid for this call.
fn check_nested(pending: &[PendingCall], decisions: &Decisions) -> Result<(), DecisionError> {
    for (id, decision) in decisions {
        let Some(suspended) = pending.iter().find(|suspended| suspended.contains_call(id)) else {
            let leaves = pending.iter().flat_map(PendingCall::innermost_calls);
            let suspended = leaves.map(|leaf| &*leaf.call.id).collect::<Vec<_>>().join(", ");
            return Err(DecisionError::UnknownCall { id: id.clone(), suspended });
        };
        let is_inside = suspended.call.id != *id;
        let decision = decision.clone();
        let decision = if is_inside {
            Decision::Nested { decisions: Decisions::from([(id.clone(), decision)]) }
        } else {
            decision
        };
        suspended.pending.clone().resume(decision)?;
    }
    Ok(())
}

fn check_input(schema: &Map<String, Value>, value: &Value) -> Result<(), DecisionError> {
    if schema.is_empty() {
        return Ok(());
    }
    let schema = Schema::new(Value::Object(schema.clone()))
        .map_err(|error| DecisionError::InvalidInput(format!("the schema cannot be used: {error}")))?;
    schema.validate(value).map_err(|error| DecisionError::InvalidInput(error.to_string()))
}

/// The deserialized form of a [`ResumedCall`]. Its decision is not checked yet.
#[derive(Deserialize)]
struct UncheckedResumed {
    pending: Pending,
    decision: Decision,
}

impl TryFrom<UncheckedResumed> for ResumedCall {
    type Error = DecisionError;

    fn try_from(saved: UncheckedResumed) -> Result<Self, DecisionError> {
        let UncheckedResumed { pending, decision } = saved;
        pending.resume(decision)
    }
}
