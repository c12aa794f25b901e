use std::time::Duration;

use super::{FailedCall, FailureHook, TouchFn};
use crate::{call::Failure, limits};

/// The end of a running call after a cancellation of its run, as set by
/// [`ToolPolicy::on_cancel`].
///
/// The pipeline waits for the end of an aborted call, at most for
/// [`ABORT_WAIT`](limits::ABORT_WAIT).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnCancel {
    /// The call is aborted at once.
    #[default]
    Abort,
    /// The call has the [grace period](crate::Pipeline::with_cancel_grace) to end by itself, and
    /// its result is recorded. It is aborted after the period. For a tool that listens to its
    /// [token](super::ToolContext::cancellation), or that blocks a thread of tokio's pool.
    Grace,
    /// The call has the grace period and [`ABORT_WAIT`](limits::ABORT_WAIT), also after its
    /// deadline. For a tool that ends its subtasks before it returns, such as an agent used as a
    /// tool.
    Subtasks,
}

/// The host program's rules for calls to a tool.
///
/// A policy is set only in code. It is never serialized and never received from a server.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use haft_core::tool::ToolPolicy;
///
/// let policy = ToolPolicy::default().with_timeout(Duration::from_secs(5)).with_approval();
/// assert!(policy.requires_approval);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolPolicy {
    /// The timeout of a call. `None` means the default of the
    /// [pipeline](crate::Pipeline::with_timeout), which is [`limits::CALL_TIMEOUT`] if it is not
    /// set. Zero is a [defect](super::ToolDefinition::defect) of the tool. Default: `None`.
    pub timeout: Option<Duration>,
    /// `true` if each call requires the approval of a person. Default: `false`.
    pub requires_approval: bool,
    /// The scopes required for a call. The principal of the call must have all of them. Default:
    /// none.
    pub required_scopes: Vec<String>,
    /// `true` if each call runs alone: it starts after all earlier calls in the same reply have
    /// ended. Later calls start after it. While it is suspended, they are
    /// [postponed](crate::call::PendingKind::Postponed). If `true`, [`touches`](Self::touches) has
    /// no effect. Default: `false`.
    pub sequential: bool,
    /// The function that returns the resources of a call. Calls with conflicting resources run in
    /// order, other calls in parallel. With `None`, a call conflicts only with calls that run
    /// alone, such as calls to [sequential](Self::sequential) tools. Default: `None`.
    pub touches: Option<TouchFn>,
    /// `true` if a repeated call with the same arguments has no further effect. Calls to an
    /// idempotent tool may be repeated after a crash. Default: `false`.
    pub idempotent: bool,
    /// `Some(true)` if `haft_middleware::ResultCache` may return an earlier result instead of a call.
    /// The result must depend only on the arguments, the principal, and the host state that the
    /// tool [declares](super::ToolDefinition::with_state_type). `None` means the earlier value of
    /// the [definition](super::ToolDefinition::with_policy), or the value of
    /// [`idempotent`](Self::idempotent). The attribute [`#[tool]`](macro@crate::tool) sets
    /// `Some(false)` for functions with a context, because they can read any host state. Default:
    /// `None`.
    pub cacheable: Option<bool>,
    /// The end of a running call after a cancellation. `None` means the earlier value of the
    /// [definition](super::ToolDefinition::with_policy), or [`OnCancel::Abort`]. The attribute
    /// [`#[tool]`](macro@crate::tool) sets [`OnCancel::Grace`] for blocking functions, and for
    /// functions with a context. Default: `None`.
    pub on_cancel: Option<OnCancel>,
    /// `true` if an agent may repeat a call any number of times, also if the result is equal each
    /// time, for example to wait for an event. If `false`, an agent stops after
    /// [`limits::REPEATED_CALLS`] equal calls with equal results in a row. Default: `false`.
    pub repeatable: bool,
    /// The maximum number of consecutive retries
    /// ([`ToolError::Retry`](crate::call::ToolError::Retry)) that the tool can request in a run. A
    /// successful call resets the count. The tool reads the remaining number from
    /// [`ToolContext::attempt`](super::ToolContext::attempt). Default: [`limits::TOOL_RETRIES`].
    pub retries: u32,
    /// The maximum number of calls in a run. A further call is denied, the model reads the reason,
    /// and the run continues. Calls that were denied or had invalid arguments are not counted. The
    /// run counts the calls by tool name, also across hand-offs; direct calls and calls that
    /// another tool makes are not limited. `None` means no limit. Zero is a
    /// [defect](super::ToolDefinition::defect) of the tool. Default: `None`.
    pub max_calls: Option<u32>,
    /// The maximum length of the text that the model receives as the result of a call, in bytes.
    /// Longer text is truncated. Zero is a [defect](super::ToolDefinition::defect) of the tool.
    /// Default: [`limits::RESULT_TEXT_BYTES`].
    pub output_limit: usize,
    /// The names of arguments whose values `haft_middleware::AuditEntry` redacts at any depth, in
    /// addition to its default names. Default: none.
    pub redacted: Vec<String>,
    /// The hook that can replace the failures of the tool. Default: none.
    pub failure_hook: Option<FailureHook>,
}

impl Default for ToolPolicy {
    fn default() -> Self {
        Self {
            timeout: None,
            requires_approval: false,
            required_scopes: Vec::new(),
            sequential: false,
            touches: None,
            idempotent: false,
            cacheable: None,
            on_cancel: None,
            repeatable: false,
            retries: limits::TOOL_RETRIES,
            max_calls: None,
            output_limit: limits::RESULT_TEXT_BYTES,
            redacted: Vec::new(),
            failure_hook: None,
        }
    }
}

impl ToolPolicy {
    /// Sets the [timeout](Self::timeout) of a call.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout), ..self }
    }

    /// Sets the maximum number of consecutive [retries](Self::retries).
    #[must_use]
    pub fn with_retries(self, retries: u32) -> Self {
        Self { retries, ..self }
    }

    /// Sets the maximum number of [calls](Self::max_calls) in a run.
    #[must_use]
    pub fn with_max_calls(self, calls: u32) -> Self {
        Self { max_calls: Some(calls), ..self }
    }

    /// Requires an [approval](Self::requires_approval) of each call.
    #[must_use]
    pub fn with_approval(self) -> Self {
        Self { requires_approval: true, ..self }
    }

    /// Adds a [scope](Self::required_scopes) that the principal of a call must have.
    #[must_use]
    pub fn with_required_scope(mut self, scope: impl Into<String>) -> Self {
        self.required_scopes.push(scope.into());
        self
    }

    /// Runs each call [alone](Self::sequential).
    #[must_use]
    pub fn with_sequential_calls(self) -> Self {
        Self { sequential: true, ..self }
    }

    /// Declares that calls are [idempotent](Self::idempotent).
    #[must_use]
    pub fn with_idempotent_calls(self) -> Self {
        Self { idempotent: true, ..self }
    }

    /// Declares whether results are [cacheable](Self::cacheable).
    #[must_use]
    pub fn with_cacheable_results(self, cacheable: bool) -> Self {
        Self { cacheable: Some(cacheable), ..self }
    }

    /// Returns `true` if results are [cacheable](Self::cacheable).
    pub fn is_cacheable(&self) -> bool {
        self.cacheable.unwrap_or(self.idempotent)
    }

    /// Sets the [end](Self::on_cancel) of a running call after a cancellation.
    #[must_use]
    pub fn with_on_cancel(self, on_cancel: OnCancel) -> Self {
        Self { on_cancel: Some(on_cancel), ..self }
    }

    /// Permits any number of [equal calls](Self::repeatable) with equal results.
    #[must_use]
    pub fn with_repeatable_calls(self) -> Self {
        Self { repeatable: true, ..self }
    }

    /// Sets the [maximum length](Self::output_limit) of the result text, in bytes.
    #[must_use]
    pub fn with_output_limit(self, bytes: usize) -> Self {
        Self { output_limit: bytes, ..self }
    }

    /// Sets the [hook](Self::failure_hook) that can replace the failures of the tool.
    #[must_use]
    pub fn with_failure_hook(
        self,
        hook: impl Fn(&FailedCall<'_>) -> Option<Failure> + Send + Sync + 'static,
    ) -> Self {
        Self { failure_hook: Some(FailureHook::new(hook)), ..self }
    }

    /// Returns a description of the value with which no call can succeed. `None` for a valid
    /// policy.
    pub(super) fn defect(&self) -> Option<String> {
        let problem = if self.timeout == Some(Duration::ZERO) {
            "with a timeout of zero, each call times out: set a positive timeout, or leave it out"
        } else if self.output_limit == 0 {
            "with an output limit of 0 bytes, the model reads no result: set a positive limit, or leave it out"
        } else if self.max_calls == Some(0) {
            "with at most 0 calls, each call is denied: set a positive number, or hide the tool"
        } else {
            return None;
        };
        Some(format!("its policy: {problem}"))
    }
}
