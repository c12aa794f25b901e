//! Hooks: code of the host that a run waits for.

mod build;
mod inputs;
mod prepare;

use std::{future::Future, panic::catch_unwind, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use haft_core::{Transcript, agent::AgentErrorKind, call::BoxError, limits, tool::RunContext, usage::Usage};
use tokio::{
    runtime::Handle,
    task::{AbortHandle, JoinError},
    time::sleep,
};
use tracing::Instrument as _;

use crate::{Output, OutputError, Run};
use prepare::PreparedLists;

pub(super) use inputs::StepInputs;
pub use prepare::StepRequest;

/// The view of a run in a hook. Cheap to clone.
///
/// Tests of a hook start from the default, and set the fields that they need.
///
/// # Examples
///
/// ```
/// use haft_react::StepContext;
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
    /// The context of the run: principal, state, cancellation.
    pub run: Arc<RunContext>,
    /// Number of requests in this run so far.
    pub step: u32,
    /// Tokens and cost so far.
    pub usage: Usage,
    /// The conversation so far.
    pub transcript: Transcript,
}

impl StepContext {
    pub(super) fn new(run: &Run, context: &Arc<RunContext>) -> Self {
        Self {
            run: Arc::clone(context),
            step: run.step(),
            usage: run.usage(),
            transcript: run.transcript().clone(),
        }
    }
}

type Hook<In, Out, E> = Arc<dyn Fn(In, StepContext) -> BoxFuture<'static, Result<Out, E>> + Send + Sync>;
type Instructions = Arc<dyn Fn(StepContext) -> BoxFuture<'static, Result<String, BoxError>> + Send + Sync>;

/// The hooks of an agent.
pub(super) struct Hooks {
    instructions: Vec<Instructions>,
    prepare: Vec<Hook<StepRequest, StepRequest, BoxError>>,
    prepared: PreparedLists,
    validators: Vec<Hook<Output, Output, OutputError>>,
    /// The timeout of each hook.
    timeout: Duration,
}

impl Default for Hooks {
    fn default() -> Self {
        Self {
            instructions: Vec::new(),
            prepare: Vec::new(),
            prepared: PreparedLists::default(),
            validators: Vec::new(),
            timeout: limits::HOOK_TIMEOUT,
        }
    }
}

impl Hooks {
    /// Applies the validators in order, each to the output of the one before.
    pub(super) async fn validate(&self, mut output: Output, cx: StepContext) -> Result<Output, OutputError> {
        for validator in &self.validators {
            let validator = Arc::clone(validator);
            let checked = within(self.timeout, &cx, move |cx| validator(output, cx)).await;
            output = checked.map_err(|error| OutputError::Failed(error.into()))??;
        }
        Ok(output)
    }
}

/// The failure of a hook.
#[derive(Debug, thiserror::Error)]
enum HookError {
    #[error("it took longer than {0:?}")]
    TimedOut(Duration),
    #[error("it panicked")]
    Panicked,
    #[error("the runtime has no timer: enable it")]
    NoTimer,
}

impl HookError {
    /// The result of a hook, or the error that ends the run.
    fn flat<T>(given: Result<Result<T, BoxError>, Self>, hook: &'static str) -> Result<T, AgentErrorKind> {
        let given = given.map_err(BoxError::from).and_then(|given| given);
        given.map_err(|source| AgentErrorKind::Hook { hook, source })
    }
}

/// Runs a hook on a task of its own, on the runtime of the calls. A hook that panics or blocks does
/// not affect the driver.
async fn within<F: Future<Output: Send + 'static> + Send>(
    timeout: Duration,
    cx: &StepContext,
    hook: impl FnOnce(StepContext) -> F + Send + 'static,
) -> Result<F::Output, HookError> {
    // Tokio panics if its timer is not enabled.
    let timer = catch_unwind(|| sleep(timeout)).map_err(|_no_timer| HookError::NoTimer)?;
    let runtime = cx.run.runtime.clone().unwrap_or_else(Handle::current);
    let cx = cx.clone();
    let task = runtime.spawn(async move { hook(cx).await }.in_current_span());
    let _abort = AbortOnDrop(task.abort_handle());
    tokio::select! {
        biased;
        ended = task => ended.map_err(panicked),
        () = timer => Err(HookError::TimedOut(timeout)),
    }
}

/// The text of a panic may contain anything, so that it goes to the trace only.
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
