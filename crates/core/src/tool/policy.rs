use std::time::Duration;

use super::Access;
use crate::limits;

/// How the host runs a tool: set by code, never by a server, never serialised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// How long a call may take in all. Default: [`limits::CALL_TIMEOUT`].
    pub timeout: Duration,
    /// Whether a person must approve each call before it runs. Default: no.
    pub requires_approval: bool,
    /// Scopes that the caller must have, all of them. Default: none.
    pub required_scopes: Vec<String>,
    /// `true` if a call runs alone: calls before it in a reply end first, calls after it wait.
    /// This is the special case of [`touches`](Self::touches) in which a call conflicts with every
    /// other. Default: `false`.
    pub sequential: bool,
    /// The resources that a call reads and writes. Calls in conflict run in order, others in
    /// parallel. With `None`, a call conflicts only with calls that run alone. Default: `None`.
    pub touches: Option<Access>,
    /// Whether calling twice has the effect of calling once. Default: no.
    pub idempotent: bool,
    /// How often the tool may ask the model for another try in one run. Default: [`limits::TOOL_RETRIES`].
    pub retries: u32,
    /// How many bytes of a result the model reads. Default: [`limits::RESULT_BYTES`].
    pub output_limit: usize,
    /// Arguments whose values are on no audit (`haft_middleware::Audit`), by their names at any depth, beside those that are not anyway. Default:
    /// none.
    pub redacted: Vec<String>,
}

impl Default for Policy {
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
