use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The decision of one guardrail, as recorded in
/// [`RunAnswer::guardrails`](super::RunAnswer::guardrails) and
/// [`AgentErrorKind::Guardrail`](super::AgentErrorKind::Guardrail).
///
/// A guardrail is a check of the host program that passes, changes or withholds data of a run, or
/// ends the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GuardrailReport {
    /// The name of the guardrail.
    pub guardrail: String,
    /// The stage at which the guardrail worked.
    pub stage: GuardrailStage,
    /// The action of the guardrail.
    pub action: GuardrailAction,
    /// The information that the guardrail returned, such as a score. `null` if there is none.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub information: Value,
    /// The id of the checked call. `None` if an input or an answer was checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
}

/// The stage of a run at which a guardrail works, named after the data that it checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum GuardrailStage {
    /// The new messages of the user.
    Input,
    /// The answer of the run.
    Answer,
    /// The arguments of a tool call.
    Call,
    /// The result of a tool call.
    CallResult,
    /// A model request, before it is sent.
    Request,
    /// A reply of the model.
    Reply,
    /// All tool calls of a reply with their results.
    CallResults,
}

/// The action of a guardrail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum GuardrailAction {
    /// The guardrail accepted the data.
    Pass,
    /// The guardrail changed the data.
    Rewrite,
    /// The guardrail rejected the data with a text for the model, which tries again.
    Retry,
    /// The guardrail replaced the data with a text for the model or the user.
    Block,
    /// The guardrail ended the run.
    End,
    /// The guardrail failed, and its failure was ignored.
    Failed,
}

impl fmt::Display for GuardrailStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Input => "input",
            Self::Answer => "answer",
            Self::Call => "call",
            Self::CallResult => "call result",
            Self::Request => "request",
            Self::Reply => "reply",
            Self::CallResults => "call results",
        })
    }
}
