//! Code of the host that a run waits for.

use std::{future::Future, panic::catch_unwind, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use haft_core::{RunContext, Transcript, Usage};
use tokio::{
    runtime::Handle,
    task::{AbortHandle, JoinError},
    time::sleep,
};
use tracing::Instrument as _;

use crate::{Output, OutputError, Run};

/// What the code that an agent is given sees of a run. Cheap to clone.
#[derive(Clone)]
#[non_exhaustive]
pub struct StepContext {
    /// For whom the run is: principal, state, cancellation.
    pub run: Arc<RunContext>,
    /// How many requests there were in this run.
    pub step: u32,
    /// What the run cost so far.
    pub usage: Usage,
    /// The conversation so far.
    pub transcript: Transcript,
}

impl StepContext {
    pub(super) fn new(run: &Run, context: &Arc<RunContext>) -> Self {
        Self {
            run: Arc::clone(context),
            step: run.requests(),
            usage: run.usage(),
            transcript: run.transcript().clone(),
        }
    }
}

pub(super) type Validator =
    Arc<dyn Fn(Output, StepContext) -> BoxFuture<'static, Result<Output, OutputError>> + Send + Sync>;

/// Holds an answer against each validator in turn; each is given what the one before made of it.
pub(super) async fn validate(
    validators: &[Validator],
    timeout: Duration,
    mut output: Output,
    context: &StepContext,
) -> Result<Output, OutputError> {
    for validator in validators {
        let (validator, context) = (Arc::clone(validator), context.clone());
        let hook = async move { validator(output, context).await };
        output = within(timeout, hook).await.map_err(|error| OutputError::Failed(error.into()))??;
    }
    Ok(output)
}

/// Why code of the host gave nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum HookError {
    #[error("it took longer than {0:?}")]
    TimedOut(Duration),
    #[error("it panicked")]
    Panicked,
    #[error("the runtime has no timer: enable it")]
    NoTimer,
}

/// Runs code of the host on a task of its own, so that code that panics or blocks costs itself, for at most this long.
pub(super) async fn within<T: Send + 'static>(
    timeout: Duration,
    hook: impl Future<Output = T> + Send + 'static,
) -> Result<T, HookError> {
    // Tokio panics where its timer is not enabled.
    let timer = catch_unwind(|| sleep(timeout)).map_err(|_no_timer| HookError::NoTimer)?;
    let task = Handle::current().spawn(hook.in_current_span());
    let _abort = AbortOnDrop(task.abort_handle());
    tokio::select! {
        biased;
        ended = task => ended.map_err(panicked),
        () = timer => Err(HookError::TimedOut(timeout)),
    }
}

/// The text of a panic may hold anything: it goes to the trace.
fn panicked(error: JoinError) -> HookError {
    if let Ok(panic) = error.try_into_panic() {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        tracing::error!(panic = text.unwrap_or("(no text)"), "code that the agent was given panicked");
    }
    HookError::Panicked
}

struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
