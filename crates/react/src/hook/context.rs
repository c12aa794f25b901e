//! Information about a run, passed to its hooks.

use std::{
    mem,
    sync::{Arc, Mutex, PoisonError},
};

use haft_core::{Transcript, tool::RunContext, usage::Usage};
use serde_json::Value;

use crate::{Run, entries::Entries};

/// Information about a run, passed to its hooks. Cheap to clone.
///
/// In a test of a hook, create a default context and set the fields that the hook reads.
///
/// # Examples
///
/// ```
/// use haft_react::hook::HookContext;
///
/// fn hurry(cx: &HookContext) -> &'static str {
///     if cx.step > 5 { "Come to an end." } else { "Take your time." }
/// }
///
/// let mut cx = HookContext::default();
/// assert_eq!(hurry(&cx), "Take your time.");
/// cx.step = 6;
/// assert_eq!(hurry(&cx), "Come to an end.");
/// ```
#[derive(Clone, Default, Debug)]
#[non_exhaustive]
pub struct HookContext {
    /// The context of the run, with the principal, the state and the cancellation token.
    pub run: Arc<RunContext>,
    /// The number of model requests in this run so far. While calls are open, the request that led
    /// to them is not counted. See [`Run::step`].
    pub step: u32,
    /// The tokens and the cost of this run so far.
    pub usage: Usage,
    /// The transcript of the conversation so far, including earlier runs.
    pub transcript: Transcript,
    /// The index of the first message of this run in `transcript`. See
    /// [`Run::first_message_index`].
    pub first_message: usize,
    /// The saved entries of the extension that added the hook. The hooks of the agent builder share
    /// the entries of the extension named `""`.
    pub entries: Entries,
    information: Arc<Mutex<Value>>,
}

impl HookContext {
    /// Creates a context from the current state of `run`. It shares the transcript of `run`, and
    /// must be dropped before an outcome is applied: appending a message to a shared transcript
    /// copies it.
    pub(crate) fn new(run: &Run, context: &Arc<RunContext>, entries: &Entries) -> Self {
        Self {
            run: Arc::clone(context),
            step: run.step(),
            usage: run.usage(),
            transcript: run.transcript().clone(),
            first_message: run.first_message_index(),
            entries: entries.clone(),
            information: Arc::default(),
        }
    }

    /// Returns a copy of this context for a hook of the extension named `extension`.
    pub(crate) fn for_extension(&self, extension: &str) -> Self {
        Self { entries: self.entries.for_extension(extension), information: Arc::default(), ..self.clone() }
    }

    /// Sets information for the [report](haft_core::agent::GuardrailReport) of the hook, such as a
    /// score. It is not sent to the model. A hook that passes calls or results is reported only
    /// with information.
    pub fn set_information(&self, information: impl Into<Value>) {
        *self.information.lock().unwrap_or_else(PoisonError::into_inner) = information.into();
    }

    /// Takes the information that the hook has set.
    pub(crate) fn take_information(&self) -> Value {
        mem::take(&mut *self.information.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
