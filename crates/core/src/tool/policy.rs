use std::time::Duration;

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
    /// Whether the call runs alone: calls before it in a batch end first, calls after it wait. Default: no.
    pub sequential: bool,
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
            idempotent: false,
            retries: limits::TOOL_RETRIES,
            output_limit: limits::RESULT_BYTES,
            redacted: Vec::new(),
        }
    }
}
