//! Information about a run, passed to its hooks.

use std::sync::Arc;

use haft_core::{Transcript, tool::RunContext, usage::Usage};

use super::Entries;
use crate::Run;

/// Information about a run, passed to its hooks. Cheap to clone.
///
/// In a test of a hook, create a default context and set the fields that the hook reads.
///
/// # Examples
///
/// ```
/// use haft_react::extension::StepContext;
///
/// fn hurry(cx: &StepContext) -> &'static str {
///     if cx.step > 5 { "Come to an end." } else { "Take your time." }
/// }
///
/// let mut cx = StepContext::default();
/// assert_eq!(hurry(&cx), "Take your time.");
/// cx.step = 6;
/// assert_eq!(hurry(&cx), "Come to an end.");
/// ```
#[derive(Clone, Default, Debug)]
#[non_exhaustive]
pub struct StepContext {
    /// The context of the run, with the principal, the state and the cancellation token.
    pub run: Arc<RunContext>,
    /// The number of model requests in this run so far. While calls are open, the request that led
    /// to them is not counted. See [`Run::step`].
    pub step: u32,
    /// The tokens and the cost of this run so far.
    pub usage: Usage,
    /// The transcript of the conversation so far, including earlier runs.
    pub transcript: Transcript,
    /// The saved entries of the extension that added the hook. The hooks of the agent builder share
    /// the entries of the extension named `""`.
    pub entries: Entries,
}

impl StepContext {
    /// Creates a context from the current state of `run`. A driver passes the context to the
    /// methods of an [`ExtensionSet`](super::ExtensionSet). For each hook, the set replaces
    /// `entries` with the entries of the hook's extension.
    ///
    /// The context shares the transcript of `run`. Drop the context before the next outcome is
    /// reported to `run`: appending a message to a shared transcript copies the transcript.
    pub fn new(run: &Run, context: &Arc<RunContext>, entries: &Entries) -> Self {
        Self {
            run: Arc::clone(context),
            step: run.step(),
            usage: run.usage(),
            transcript: run.transcript().clone(),
            entries: entries.clone(),
        }
    }

    /// Returns a copy of this context with the entries of the agent builder, for a hook that
    /// belongs to no extension.
    #[must_use]
    pub fn for_builder(&self) -> Self {
        self.for_extension("")
    }

    /// Returns a copy of this context with the entries of the extension named `extension`.
    pub(super) fn for_extension(&self, extension: &str) -> Self {
        Self { entries: self.entries.for_extension(extension), ..self.clone() }
    }
}
