use std::{
    error::Error,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use super::{ToolContext, ToolDefinition};
use crate::{
    call::{Failure, FailureKind, ToolCall},
    panic_log::log_panic_text,
};

/// A function of the host program that replaces the failure of a call, for example the text for the
/// model.
///
/// The function receives every failed call: invalid arguments, unknown tools, denied calls, errors,
/// timeouts and panics. It returns the new failure, or `None` to keep the failure. It runs on the
/// task of the call and must not block. If it panics, the failure is kept.
///
/// A hook belongs to a tool ([`ToolPolicy::failure_hook`](super::ToolPolicy::failure_hook)) or to a
/// pipeline ([`Pipeline::with_failure_hook`](crate::Pipeline::with_failure_hook)). The hook of the
/// tool comes first, then those of its pipeline, in the order in which they were added, and then
/// those of outer pipelines. The first returned failure is used.
///
/// Two `FailureHook` values are equal if they are clones of each other.
///
/// # Examples
///
/// ```
/// use haft_core::{Pipeline, Toolset, call::FailureKind, tool};
/// use serde_json::json;
///
/// /// Returns the weather.
/// #[tool]
/// fn weather(city: String) -> Result<String, std::num::ParseIntError> {
///     Ok(city.parse::<i64>()?.to_string())
/// }
///
/// let pipeline = Pipeline::new().with_failure_hook(|failed| match failed.failure.kind {
///     FailureKind::Failed => Some(failed.with_message("The weather service is down today.")),
///     _ => None,
/// });
/// let tools = Toolset::new().with_tool(Weather).with_pipeline(pipeline);
/// let result = tools.call_blocking("weather", json!({"city": "Oslo"}));
/// assert_eq!(result.model_text(), "The weather service is down today.");
/// ```
#[derive(Clone)]
pub struct FailureHook(Arc<Hook>);

type Hook = dyn Fn(&FailedCall<'_>) -> Option<Failure> + Send + Sync;

/// A failed call, as passed to a [`FailureHook`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct FailedCall<'a> {
    /// The call as received, before repairs.
    pub call: &'a ToolCall,
    /// The definition of the called tool. `None` if the tool is unknown.
    pub definition: Option<&'a ToolDefinition>,
    /// The failure: its kind and its text for the model.
    pub failure: &'a Failure,
    /// The underlying error of the tool, if any. The model does not receive it.
    pub source: Option<&'a (dyn Error + 'static)>,
    /// The context of the call.
    pub context: &'a ToolContext,
}

impl FailedCall<'_> {
    /// Returns a failure of the same kind with the text `message` for the model.
    pub fn with_message(&self, message: impl Into<String>) -> Failure {
        Failure::new(self.failure.kind, message)
    }

    /// Returns a [fatal](FailureKind::Fatal) failure with the text `message`. The agent stops the
    /// run with this text.
    pub fn fatal(&self, message: impl Into<String>) -> Failure {
        Failure::new(FailureKind::Fatal, message)
    }
}

impl FailureHook {
    /// Creates a hook from the function `hook`.
    pub fn new(hook: impl Fn(&FailedCall<'_>) -> Option<Failure> + Send + Sync + 'static) -> Self {
        Self(Arc::new(hook))
    }

    /// Returns the new failure. `None` if the hook keeps the failure or panics.
    pub fn replacement(&self, failed: &FailedCall<'_>) -> Option<Failure> {
        let replaced = catch_unwind(AssertUnwindSafe(|| self.0(failed)));
        replaced.unwrap_or_else(|panic| {
            tracing::error!(call = failed.call.id, "a failure hook panicked, the failure is kept");
            log_panic_text(&*panic);
            None
        })
    }
}

impl fmt::Debug for FailureHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FailureHook").finish_non_exhaustive()
    }
}

impl PartialEq for FailureHook {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for FailureHook {}
