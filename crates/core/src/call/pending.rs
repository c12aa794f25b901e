use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{ToolCall, ToolOutput};

/// The pending state of a call.
///
/// # Examples
///
/// ```
/// use haft_core::{call::{Decision, Pending, PendingKind, ToolResponse}, tool, ToolContext};
/// use serde_json::json;
///
/// /// Books a seat.
/// #[tool]
/// fn book(#[tool(context)] cx: &ToolContext) -> ToolResponse {
///     match (cx.decision(), cx.pending_state()) {
///         (Some(Decision::Input { value }), Some(offer)) => {
///             format!("seat {value} of offer {offer}").into()
///         }
///         _ => {
///             let question = Pending::new(PendingKind::input("Which seat?"));
///             ToolResponse::Pending(question.with_state(json!(7)))
///         }
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Pending {
    /// The expected decision.
    pub kind: PendingKind,
    /// Data of the tool, passed back to it when the call is resumed, as
    /// [`ToolContext::pending_state`](crate::tool::ToolContext::pending_state). Null by default.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub state: Value,
    /// The approved arguments of a call that is pending again. The gate sets them, so that an
    /// approval is requested once and the approved arguments run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved: Option<Value>,
    /// The [fingerprint](crate::tool::ToolDefinition::fingerprint) of the tool when the approval
    /// was requested. The gate sets it. If the definition changes before the call is resumed, the
    /// gate requests a new approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<String>,
}

impl Pending {
    /// Creates a pending state without data of the tool.
    pub fn new(kind: PendingKind) -> Self {
        Self { kind, state: Value::Null, approved: None, definition: None }
    }

    /// Sets the data that the tool receives when the call is resumed.
    #[must_use]
    pub fn with_state(mut self, state: Value) -> Self {
        self.state = state;
        self
    }
}

/// A suspended call: it needs an approval, an input, or the output of an external tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PendingCall {
    /// The suspended call. A decision refers to it by its id.
    pub call: ToolCall,
    /// The pending state.
    #[serde(flatten)]
    pub pending: Pending,
}

impl PendingCall {
    /// Returns `true` if `id` belongs to this call or to a call inside it.
    pub fn covers(&self, id: &str) -> bool {
        self.call.id == id || self.inner().iter().any(|inner| inner.covers(id))
    }

    /// Returns the calls that need a decision: this call, or the calls inside its child run.
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

/// The kind of decision needed by a suspended call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum PendingKind {
    /// An approval of the call with exactly these arguments.
    Approval {
        /// The arguments after parsing and repair, as presented for approval.
        arguments: Value,
    },
    /// Input from a person.
    Input {
        /// The question.
        message: String,
        /// The JSON Schema of the input. Empty if any input is valid.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        schema: Map<String, Value>,
    },
    /// The output of an external tool, executed by the host program.
    External,
    /// Decisions about the calls of a suspended child run.
    Nested {
        /// The suspended calls of the child run.
        pending: Vec<PendingCall>,
    },
}

impl PendingKind {
    /// Requests input without a schema.
    pub fn input(message: impl Into<String>) -> Self {
        Self::Input { message: message.into(), schema: Map::new() }
    }
}

/// Decisions by call id. A call without a decision stays suspended.
pub type Decisions = BTreeMap<String, Decision>;

/// A decision about a suspended call, by a person or a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Decision {
    /// The call is approved.
    Approved {
        /// Replaces the presented arguments. `None` approves them unchanged.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<Value>,
    },
    /// The call is denied.
    Denied {
        /// The reason, which is sent to the model.
        reason: String,
    },
    /// Input from a person.
    Input {
        /// The input, valid for the schema of the request.
        value: Value,
    },
    /// The output of an external tool.
    Output {
        /// The output.
        output: ToolOutput,
    },
    /// The failure of an external tool.
    Failed {
        /// The error message, for the model.
        message: String,
    },
    /// Decisions about calls of a child run.
    Nested {
        /// The decisions by call id. May be incomplete.
        decisions: Decisions,
    },
}

impl Decision {
    /// Approves a call with the presented arguments.
    pub fn approved() -> Self {
        Self::Approved { arguments: None }
    }

    /// Approves a call with other arguments. The result has a warning about the change.
    ///
    /// Arguments that violate the schema of the tool fail the call with
    /// [`ToolError::InvalidArguments`](super::ToolError::InvalidArguments).
    pub fn approved_with(arguments: Value) -> Self {
        Self::Approved { arguments: Some(arguments) }
    }

    /// Denies a call. The model reads the reason.
    pub fn denied(reason: impl Into<String>) -> Self {
        Self::Denied { reason: reason.into() }
    }

    /// Provides the output of an external tool.
    pub fn output(output: impl Into<ToolOutput>) -> Self {
        Self::Output { output: output.into() }
    }
}
