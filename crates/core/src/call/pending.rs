use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{ToolCall, ToolOutput};

/// The state of a suspended call: the kind of decision that the call waits for, and the data needed
/// to resume the call.
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
///     match (cx.decision(), cx.continuation()) {
///         (Some(Decision::Input { value }), Some(offer)) => {
///             format!("seat {value} of offer {offer}").into()
///         }
///         _ => {
///             let question = Pending::new(PendingKind::input("Which seat?"));
///             ToolResponse::Pending(question.with_continuation(json!(7)))
///         }
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Pending {
    /// The kind of decision that the call waits for.
    pub kind: PendingKind,
    /// Data saved by the tool. When the call is resumed, the tool reads it with
    /// [`ToolContext::continuation`](crate::tool::ToolContext::continuation). Null by default.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub continuation: Value,
    /// The arguments that were approved before the tool suspended the call again. The pipeline sets
    /// this field, so that the resumed call runs with the approved arguments and needs no second
    /// approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved: Option<Value>,
    /// The [fingerprint](crate::tool::ToolDefinition::fingerprint) of the tool's definition at the
    /// time of the approval request. The pipeline sets this field, and requests a new approval if
    /// the definition has changed when the call is resumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<String>,
}

impl Pending {
    /// Creates a pending state of the given kind, without data for the tool.
    pub fn new(kind: PendingKind) -> Self {
        Self { kind, continuation: Value::Null, approved: None, definition: None }
    }

    /// Sets the data that the tool reads when the call is resumed.
    #[must_use]
    pub fn with_continuation(mut self, continuation: Value) -> Self {
        self.continuation = continuation;
        self
    }
}

/// A suspended tool call, with the data needed to resume it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PendingCall {
    /// The suspended call. Decisions refer to the call by its id.
    pub call: ToolCall,
    /// The kind of decision that the call waits for, and the data to resume it.
    #[serde(flatten)]
    pub pending: Pending,
}

impl PendingCall {
    /// Returns `true` if `id` is the id of this call or of one of its nested calls, at any depth.
    pub fn contains_call(&self, id: &str) -> bool {
        self.call.id == id || self.nested_calls().iter().any(|nested| nested.contains_call(id))
    }

    /// Returns the calls that need a decision. For a call that waits for nested calls, these are
    /// the innermost nested calls. For other calls, this is the call itself.
    pub fn innermost_calls(&self) -> Vec<&Self> {
        match &self.pending.kind {
            PendingKind::Nested { pending } => pending.iter().flat_map(Self::innermost_calls).collect(),
            _ => vec![self],
        }
    }

    fn nested_calls(&self) -> &[Self] {
        match &self.pending.kind {
            PendingKind::Nested { pending } => pending,
            _ => &[],
        }
    }
}

/// The kind of decision that a suspended call waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum PendingKind {
    /// An approval of the call with these arguments.
    Approval {
        /// The arguments to approve, after parsing and repair.
        arguments: Value,
    },
    /// Input from a person.
    Input {
        /// The question for the person.
        message: String,
        /// The JSON Schema of the input. Empty if any input is valid.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        schema: Map<String, Value>,
    },
    /// The output of an external tool, which the host program executes.
    External,
    /// Decisions about nested calls, for example the calls of an agent used as a tool.
    Nested {
        /// The suspended nested calls.
        pending: Vec<PendingCall>,
    },
}

impl PendingKind {
    /// Creates a request for input from a person, with the question `message`. Any input is valid.
    pub fn input(message: impl Into<String>) -> Self {
        Self::Input { message: message.into(), schema: Map::new() }
    }
}

/// Decisions about suspended calls, by call id. A call without a decision stays suspended.
pub type Decisions = BTreeMap<String, Decision>;

/// A decision about a suspended call, made by a person or a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Decision {
    /// An approval of the call. The call runs when the run is resumed.
    Approved {
        /// The arguments that replace the presented arguments. `None` approves the presented
        /// arguments unchanged.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<Value>,
    },
    /// A denial of the call. The call fails with [`ToolError::Denied`](super::ToolError::Denied),
    /// and the tool does not run.
    Denied {
        /// The reason for the denial. It is sent to the model.
        reason: String,
    },
    /// The input of a person.
    Input {
        /// The input value. It must be valid for the schema of [`PendingKind::Input`].
        value: Value,
    },
    /// The output of an external tool that the host program executed.
    Output {
        /// The output of the external tool.
        output: ToolOutput,
    },
    /// A failure of the host program to execute the external tool. The call fails with
    /// [`ToolError::Failed`](super::ToolError::Failed).
    Failed {
        /// The error message for the model.
        message: String,
    },
    /// Decisions about the nested calls of [`PendingKind::Nested`].
    Nested {
        /// The decisions, by the ids of the nested calls. Calls without a decision stay suspended.
        decisions: Decisions,
    },
}

impl Decision {
    /// Creates an approval of the call with the presented arguments.
    pub fn approved() -> Self {
        Self::Approved { arguments: None }
    }

    /// Creates an approval that replaces the presented arguments with `arguments`. If `arguments`
    /// differs from the presented arguments, the result of the call has a warning about the change.
    ///
    /// If the new arguments violate the input schema of the tool, the call fails with
    /// [`ToolError::InvalidArguments`](super::ToolError::InvalidArguments).
    pub fn approved_with_arguments(arguments: Value) -> Self {
        Self::Approved { arguments: Some(arguments) }
    }

    /// Creates a denial with the text `reason`, which is sent to the model.
    pub fn denied(reason: impl Into<String>) -> Self {
        Self::Denied { reason: reason.into() }
    }

    /// Creates a decision that provides the output of an external tool.
    pub fn output(output: impl Into<ToolOutput>) -> Self {
        Self::Output { output: output.into() }
    }
}
