use std::time::Duration;

use super::TouchFn;
use crate::limits;

/// The host program's rules for calls to a tool.
///
/// A policy is set only in code. It is never serialized and never received from a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolPolicy {
    /// The timeout of a call. Default: [`limits::CALL_TIMEOUT`].
    pub timeout: Duration,
    /// `true` if each call requires the approval of a person. Default: `false`.
    pub requires_approval: bool,
    /// The scopes required for a call. The principal of the call must have all of them. Default:
    /// none.
    pub required_scopes: Vec<String>,
    /// `true` if each call runs alone: it starts after all earlier calls in the same reply have
    /// ended, and later calls wait for it. If `true`, [`touches`](Self::touches) has no effect.
    /// Default: `false`.
    pub sequential: bool,
    /// The function that returns the resources of a call. Calls with conflicting resources run in
    /// order, other calls in parallel. With `None`, a call conflicts only with calls that run
    /// alone, such as calls to [sequential](Self::sequential) tools. Default: `None`.
    pub touches: Option<TouchFn>,
    /// `true` if a repeated call with the same arguments has no further effect. Calls to an
    /// idempotent tool may be repeated after a crash, and their results may be cached. Default:
    /// `false`.
    pub idempotent: bool,
    /// The maximum number of consecutive retries
    /// ([`ToolError::Retry`](crate::call::ToolError::Retry)) that the tool can request in a run. A
    /// successful call resets the count. Default: [`limits::TOOL_RETRIES`].
    pub retries: u32,
    /// The maximum length of the text that the model receives as the result of a call, in bytes.
    /// Longer text is truncated. Default: [`limits::RESULT_TEXT_BYTES`].
    pub output_limit: usize,
    /// The names of arguments whose values `haft_middleware::AuditEntry` redacts at any depth, in
    /// addition to its default names. Default: none.
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
            output_limit: limits::RESULT_TEXT_BYTES,
            redacted: Vec::new(),
        }
    }
}
