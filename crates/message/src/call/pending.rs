use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{RememberFor, ToolCall, ToolOutput};

/// The state of a suspended call: the kind of decision that the call waits for, and the data needed
/// to resume the call.
///
/// # Examples
///
/// ```
/// use haft_message::call::{Decision, Pending, PendingKind};
/// use serde_json::json;
///
/// let question = Pending::new(PendingKind::input("Which seat?")).with_continuation(json!(7));
/// let resumed = question.resume(Decision::Input { value: json!("12A") })?;
/// assert_eq!(resumed.pending().continuation, json!(7));
/// # Ok::<(), haft_message::call::DecisionError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Pending {
    /// The kind of decision that the call waits for.
    pub kind: PendingKind,
    /// Data saved by the tool. When the call is resumed, the tool reads it with
    /// `ToolContext::continuation`. Null by default.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub continuation: Value,
    /// The arguments that were approved before the tool suspended the call again. The pipeline sets
    /// this field, so that the resumed call runs with the approved arguments and needs no second
    /// approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved: Option<Value>,
    /// The arguments from a repair hook. The pipeline sets this field, so that the resumed call
    /// does not call the hook again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repaired: Option<Value>,
    /// The fingerprint of the tool's definition at the time of the approval request. The pipeline
    /// sets this field, and requests a new approval if the definition has changed when the call is
    /// resumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<String>,
    /// `true` if the tool handles a [denial](Decision::Denied) itself, for example because it sends
    /// the denial to a server. The resumed call then runs, and `ToolContext::decision` returns the
    /// denial. `false` by default: a denied call fails, and the tool does not run. Only
    /// [`PendingKind::Input`] supports it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub handles_denial: bool,
}

impl Pending {
    /// Creates a pending state of the given kind, without data for the tool.
    pub fn new(kind: PendingKind) -> Self {
        Self {
            kind,
            continuation: Value::Null,
            approved: None,
            repaired: None,
            definition: None,
            handles_denial: false,
        }
    }

    /// Sets the data that the tool reads when the call is resumed.
    #[must_use]
    pub fn with_continuation(mut self, continuation: Value) -> Self {
        self.continuation = continuation;
        self
    }

    /// Makes the tool handle a denial itself. See [`handles_denial`](Self::handles_denial).
    #[must_use]
    pub fn with_denial_handling(mut self) -> Self {
        self.handles_denial = true;
        self
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !*value
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
    /// The results of earlier calls. The call did not start, because an earlier call of the same
    /// reply that conflicts with it is suspended. It needs no decision of its own: run it again
    /// together with the earlier call. Only batches postpone calls.
    Postponed,
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
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Decision {
    /// An approval of the call. The call runs when the run is resumed.
    Approved {
        /// The arguments that replace the presented arguments. `None` approves the presented
        /// arguments unchanged.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<Value>,
        /// The later calls that are approved as well. `None` approves only this call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        remember: Option<RememberFor>,
    },
    /// A denial of the call. The call fails with [`ToolError::Denied`](super::ToolError::Denied),
    /// and the tool does not run, unless it [handles denials](Pending::handles_denial).
    Denied {
        /// The reason for the denial. It is sent to the model.
        reason: String,
        /// The later calls that are denied as well. `None` denies only this call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        remember: Option<RememberFor>,
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
        Self::Approved { arguments: None, remember: None }
    }

    /// Creates an approval that replaces the presented arguments with `arguments`. If `arguments`
    /// differs from the presented arguments, the result of the call has a warning about the change.
    ///
    /// If the new arguments violate the input schema of the tool, the call fails with
    /// [`ToolError::InvalidArguments`](super::ToolError::InvalidArguments).
    pub fn approved_with_arguments(arguments: Value) -> Self {
        Self::Approved { arguments: Some(arguments), remember: None }
    }

    /// Creates a denial with the text `reason`, which is sent to the model.
    pub fn denied(reason: impl Into<String>) -> Self {
        Self::Denied { reason: reason.into(), remember: None }
    }

    /// Extends an approval or a denial to all later calls of the same tool, whatever their
    /// arguments. The other suspended calls of the tool that have no decision of their own are
    /// decided at once.
    ///
    /// The decision is saved with the run, and applies to the calls of child agents and to pushed
    /// calls. It ends if the definition of the tool changes. For later runs, see
    /// [`Approvals`](super::Approvals). Other decisions are returned unchanged.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_message::call::{Decision, Decisions};
    ///
    /// let decisions = Decisions::from([
    ///     ("call_1".to_owned(), Decision::approved().for_tool()),
    ///     ("call_2".to_owned(), Decision::denied("never this file").for_arguments()),
    /// ]);
    /// ```
    #[must_use]
    pub fn for_tool(self) -> Self {
        self.remembered_for(RememberFor::Tool)
    }

    /// Extends an approval or a denial to all later calls of the same tool with equal arguments,
    /// like [`for_tool`](Self::for_tool). An approval with changed arguments covers the changed
    /// arguments.
    #[must_use]
    pub fn for_arguments(self) -> Self {
        self.remembered_for(RememberFor::Arguments)
    }

    fn remembered_for(mut self, calls: RememberFor) -> Self {
        if let Self::Approved { remember, .. } | Self::Denied { remember, .. } = &mut self {
            *remember = Some(calls);
        }
        self
    }

    /// Creates a decision that provides the output of an external tool.
    pub fn output(output: impl Into<ToolOutput>) -> Self {
        Self::Output { output: output.into() }
    }
}
