use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{ToolCall, ToolOutput};

/// The pending state of a call.
///
/// # Examples
///
/// ```
/// use haft_core::{call::{Decision, Pending, PendingKind, ToolOutcome}, tool, ToolContext};
/// use serde_json::json;
///
/// /// Books a seat.
/// #[tool]
/// fn book(#[tool(context)] cx: &ToolContext) -> ToolOutcome {
///     match (cx.decision(), cx.pending_state()) {
///         (Some(Decision::Input { value }), Some(offer)) => format!("{value} of offer {offer}").into(),
///         _ => ToolOutcome::Pending(Pending::new(PendingKind::input("Which seat?")).with_state(json!(7))),
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Pending {
    /// What it waits for.
    pub kind: PendingKind,
    /// What the tool needs to go on, for the tool alone: it reads it in
    /// [`ToolContext::pending_state`](crate::tool::ToolContext::pending_state).
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub state: Value,
    /// The approved arguments of a call that is pending again. The gate sets them, so that an approval
    /// is requested once and the approved arguments run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved: Option<Value>,
    /// The [fingerprint](crate::tool::ToolDefinition::fingerprint) of the tool when somebody was asked to permit the call: a permission is for
    /// that tool, and one that says something else by then is asked for again. The gate sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<String>,
}

impl Pending {
    /// Waits for this, with nothing to keep.
    pub fn new(kind: PendingKind) -> Self {
        Self { kind, state: Value::Null, approved: None, definition: None }
    }

    /// Keeps what the tool needs to go on.
    #[must_use]
    pub fn with_state(mut self, state: Value) -> Self {
        self.state = state;
        self
    }
}

/// A suspended call: it needs an approval, an input, or a result from elsewhere.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PendingCall {
    /// The suspended call. A decision refers to it by its id.
    pub call: ToolCall,
    /// What it waits for.
    #[serde(flatten)]
    pub pending: Pending,
}

impl PendingCall {
    /// Returns `true` if the id is of the call itself or of a call inside it.
    pub fn covers(&self, id: &str) -> bool {
        self.call.id == id || self.inner().iter().any(|inner| inner.covers(id))
    }

    /// The calls that need a decision: this one, or those inside its child run.
    pub fn leaves(&self) -> Vec<&Self> {
        match &self.pending.kind {
            PendingKind::Nested { pending } => pending.iter().flat_map(Self::leaves).collect(),
            _ => vec![self],
        }
    }

    fn inner(&self) -> &[Self] {
        match &self.pending.kind {
            PendingKind::Nested { pending } => pending,
            _ => &[],
        }
    }
}

/// The kinds of decisions that a call waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum PendingKind {
    /// A person's permission to run the call with exactly these arguments.
    Approval {
        /// The arguments that were shown, parsed and repaired.
        arguments: Value,
    },
    /// The input of a person.
    Input {
        /// The question.
        message: String,
        /// The JSON Schema of the input.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        schema: Map<String, Value>,
    },
    /// Work that the host program does itself.
    External,
    /// A child run that waits in its turn.
    Nested {
        /// What the child waits for.
        pending: Vec<PendingCall>,
    },
}

impl PendingKind {
    /// Asks a person for any input.
    pub fn input(message: impl Into<String>) -> Self {
        Self::Input { message: message.into(), schema: Map::new() }
    }
}

/// Decisions by the id of the suspended call. Some may be missing: their calls stay suspended.
pub type Decisions = BTreeMap<String, Decision>;

/// A decision of a person or program about a suspended call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Decision {
    /// The call may run.
    Approved {
        /// With these arguments in place of those that were shown.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<Value>,
    },
    /// The call must not run.
    Denied {
        /// Why; the model reads it.
        reason: String,
    },
    /// The input of a person.
    Input {
        /// The input, of the requested schema.
        value: Value,
    },
    /// The output of external work.
    Output {
        /// The result.
        output: ToolOutput,
    },
    /// Work that was done elsewhere failed.
    Failed {
        /// Why; the model reads it.
        message: String,
    },
    /// Decisions about the calls of a child run, by their ids.
    Nested {
        /// The decisions, or a part of them.
        decisions: Decisions,
    },
}

impl Decision {
    /// Permits a call with the arguments that were shown.
    pub fn approved() -> Self {
        Self::Approved { arguments: None }
    }

    /// Permits a call with other arguments: those run, and the result carries a warning that says so. They must fit the
    /// tool's schema, or the call fails and the model is told.
    pub fn approved_with(arguments: Value) -> Self {
        Self::Approved { arguments: Some(arguments) }
    }

    /// Refuses a call.
    pub fn denied(reason: impl Into<String>) -> Self {
        Self::Denied { reason: reason.into() }
    }

    /// Gives the result of work that was done elsewhere.
    pub fn output(output: impl Into<ToolOutput>) -> Self {
        Self::Output { output: output.into() }
    }
}
