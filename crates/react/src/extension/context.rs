//! The state of a run that hooks can read.

use std::sync::Arc;

use haft_core::{Transcript, tool::RunContext, usage::Usage};

use super::Entries;
use crate::Run;

/// The state of a run that a hook can read. Cheap to clone.
///
/// To test a hook, create a default context and set the fields that the hook reads.
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
    /// Number of model requests in this run so far.
    pub step: u32,
    /// Tokens and cost of the run so far.
    pub usage: Usage,
    /// The transcript of the conversation so far.
    pub transcript: Transcript,
    /// The saved entries of the extension. The hooks of the builder share entries under an empty
    /// name.
    pub entries: Entries,
}

impl StepContext {
    pub(crate) fn new(run: &Run, context: &Arc<RunContext>, entries: &Entries) -> Self {
        Self {
            run: Arc::clone(context),
            step: run.step(),
            usage: run.usage(),
            transcript: run.transcript().clone(),
            entries: entries.clone(),
        }
    }

    /// Returns a copy of the context with the entries of the given extension.
    pub(super) fn for_extension(&self, extension: &str) -> Self {
        Self { entries: self.entries.of(extension), ..self.clone() }
    }
}
