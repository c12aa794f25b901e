use std::time::Duration;

use super::Access;
use crate::limits;

/// The host's rules for calls of a tool.
///
/// A policy is set in code only. It is never serialized and never received from a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolPolicy {
    /// The time limit of a call. Default: [`limits::CALL_TIMEOUT`].
    pub timeout: Duration,
    /// Requires the approval of a person for each call. Default: `false`.
    pub requires_approval: bool,
    /// The scopes required of the principal, all of them. Default: none.
    pub required_scopes: Vec<String>,
    /// Runs each call alone: earlier calls of the reply end first, later calls wait. The call
    /// conflicts with every other call, independent of [`touches`](Self::touches). Default:
    /// `false`.
    pub sequential: bool,
    /// The resources read and written by a call. Calls in conflict run in order, others in
    /// parallel. With `None`, a call conflicts only with [sequential](Self::sequential) calls.
    /// Default: `None`.
    pub touches: Option<Access>,
    /// Declares that a repeated call has no further effect. Then a call can be repeated after a
    /// crash, and its result can be cached. Default: `false`.
    pub idempotent: bool,
    /// Maximum number of [`ToolError::Retry`](crate::call::ToolError::Retry) of the tool in a run.
    /// Default: [`limits::TOOL_RETRIES`].
    pub retries: u32,
    /// Maximum text of a result for the model, in bytes. Default: [`limits::RESULT_BYTES`].
    pub output_limit: usize,
    /// Names of arguments, at any depth, whose values are redacted in `haft_middleware::Audit`, in
    /// addition to its defaults. Default: none.
    pub redacted: Vec<String>,
}

impl Default for ToolPolicy {
    fn default() -> Self {
        Self {
            timeout: limits::CALL_TIMEOUT,
            requires_approval: false,
            required_scopes: Vec::new(),
            sequential: false,
            touches: None,
            idempotent: false,
            retries: limits::TOOL_RETRIES,
            output_limit: limits::RESULT_BYTES,
            redacted: Vec::new(),
        }
    }
}
