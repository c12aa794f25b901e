use serde::{Deserialize, Serialize};

/// The number of a call among the attempts of its tool, returned by
/// [`ToolContext::attempt`](super::ToolContext::attempt).
///
/// # Examples
///
/// ```
/// use haft_core::{ToolContext, ToolError, tool};
///
/// /// Searches the archive.
/// #[tool]
/// fn search(words: String, #[tool(context)] cx: &ToolContext) -> Result<String, ToolError> {
///     if cx.attempt().is_last() {
///         return Ok("Nothing was found.".to_owned());
///     }
///     Err(ToolError::retry("Nothing was found: use fewer words."))
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Attempt {
    /// The number of this attempt, counted from 1. All calls of one reply to the same tool have the
    /// same number.
    pub number: u32,
    /// The number of further retries that the tool can request in a row. 0 for a direct call.
    pub retries_left: u32,
}

impl Attempt {
    pub(super) fn new(failed: Option<FailedAttempts>, retries: u32) -> Self {
        let Some(failed) = failed else { return Self { number: 1, retries_left: 0 } };
        Self { number: failed.total.saturating_add(1), retries_left: retries.saturating_sub(failed.retries) }
    }

    /// Returns `true` if the tool can request no further retry: a
    /// [`ToolError::Retry`](crate::call::ToolError::Retry) is then a final failure. Always `true`
    /// for a direct call, because no model repeats it.
    pub fn is_last(self) -> bool {
        self.retries_left == 0
    }
}

/// The failed attempts of a tool since its last successful call in a run. A reply adds at most 1,
/// even if it contains several failed calls to the tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct FailedAttempts {
    /// The number of replies with a failed call. Failures of calls that did not reach the tool are
    /// included if the arguments were invalid, but not if the call was denied or cancelled.
    pub total: u32,
    /// The number of replies with a retry request
    /// ([`ToolError::Retry`](crate::call::ToolError::Retry)).
    pub retries: u32,
}
