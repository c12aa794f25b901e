use std::{
    any::type_name,
    collections::BTreeSet,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::{runtime::Handle, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{Attempt, FailedAttempts, HostState, call_scope::CallScope};
use crate::{
    RunEvent,
    call::{Approvals, Decision, ResumedCall, ToolError},
    panic_log::log_panic_text,
    usage::{Usage, UsageMeter},
};

/// The context of a tool call: its id, principal, host state, deadline and cancellation token. It
/// is cheap to clone.
///
/// The default context has no principal, no state and no deadline, and is never cancelled.
///
/// # Examples
///
/// ```
/// use haft_core::{ToolContext, tool::Principal};
///
/// let ann = Principal { id: "ann".to_owned(), ..Principal::default() };
/// let cx = ToolContext::default().with_call_id("call_1").with_principal(ann).with_state(7_u32);
/// assert_eq!((cx.call_id(), cx.state::<u32>()?), ("call_1", 7));
/// # Ok::<(), haft_core::ToolError>(())
/// ```
#[derive(Clone, Default)]
pub struct ToolContext {
    run: Arc<RunContext>,
    call_id: Arc<str>,
    deadline: Option<Instant>,
    /// The state of the running call, shared with its pipeline. `None` outside a pipeline.
    call_scope: Option<Arc<CallScope>>,
    resumed: Option<Arc<ResumedCall>>,
    /// The failed attempts of the tool. `None` for a direct call.
    failed_attempts: Option<FailedAttempts>,
}

/// The part of a [`ToolContext`] that all tool calls of a run share.
#[derive(Clone, Default)]
pub struct RunContext {
    /// The id of the run in traces and records. Empty outside a run.
    pub run_id: String,
    /// The user or service that the run acts for. `None` if it is unknown.
    pub principal: Option<Principal>,
    /// The values that the host program provides to its tools, by type.
    pub state: HostState,
    /// The token that cancels the run and all its calls.
    pub cancellation: CancellationToken,
    /// The receiver of progress reports. With `None`, progress reports are discarded.
    pub progress: Option<Arc<dyn ProgressSink>>,
    /// The counter for the tokens and costs of model requests made by tools, for example by an
    /// agent used as a tool. The driver of the run sets this field for its calls. A driver adds the
    /// usage of its own run to the counter in the context that it receives.
    pub usage: Option<UsageMeter>,
    /// The tokio runtime on which tool calls and hooks run. With `None`, they run on the runtime of
    /// the driver.
    ///
    /// On a separate runtime, blocking code in tools and hooks does not delay the driver or its
    /// timers.
    pub runtime: Option<Handle>,
    /// The remembered decisions about calls that require an approval. A call that they cover runs
    /// or is denied without a new decision. Default: `None`.
    pub approvals: Option<Approvals>,
}

/// The user or service that a call acts for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Principal {
    /// The id of the user or service, chosen by the host program.
    pub id: String,
    /// The scopes granted to the principal. A call is denied unless the principal has all [required
    /// scopes](super::ToolPolicy::required_scopes) of the tool.
    #[serde(default)]
    pub scopes: BTreeSet<String>,
}

/// A progress report of a call, as in MCP's `notifications/progress`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// The amount of completed work, in a unit chosen by the tool. Each report should have a larger
    /// value than the previous report.
    pub progress: f64,
    /// The total amount of work, in the same unit as `progress`, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// A human-readable description of the current step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A receiver for the progress reports of tool calls, and for the events of agents that run inside
/// calls.
///
/// # Examples
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use haft_core::{ToolContext, tool::{Progress, ProgressSink, RunContext}};
///
/// #[derive(Default)]
/// struct ProgressLog(Mutex<Vec<String>>);
///
/// impl ProgressSink for ProgressLog {
///     fn report(&self, call_id: &str, progress: Progress) {
///         self.0.lock().unwrap().push(format!("{call_id}: {}", progress.progress));
///     }
/// }
///
/// let log = Arc::new(ProgressLog::default());
/// let run = RunContext { progress: Some(log.clone()), ..RunContext::default() };
/// let cx = ToolContext::new(run.into(), "call_1");
/// cx.report_progress(Progress { progress: 0.5, ..Progress::default() });
/// assert_eq!(*log.0.lock().unwrap(), ["call_1: 0.5"]);
/// ```
#[async_trait]
pub trait ProgressSink: Send + Sync {
    /// Receives a progress report of the call with the id `call_id`. The method runs on the task of
    /// the tool, so it must return quickly.
    fn report(&self, call_id: &str, progress: Progress);

    /// Receives an event of an agent that runs inside the call with the id `call_id`, for the events
    /// of the run of this call. Waits while their reader is slow. Default: the event is ignored.
    async fn report_event(&self, call_id: &str, event: RunEvent) {
        let _ = (call_id, event);
    }
}

impl ToolContext {
    /// Creates the context for the call with the id `call_id`. `run` is the context of its run.
    pub fn new(run: Arc<RunContext>, call_id: impl Into<Arc<str>>) -> Self {
        Self {
            run,
            call_id: call_id.into(),
            deadline: None,
            call_scope: None,
            resumed: None,
            failed_attempts: None,
        }
    }

    /// Sets the id of the call.
    #[must_use]
    pub fn with_call_id(mut self, call_id: impl Into<Arc<str>>) -> Self {
        self.call_id = call_id.into();
        self
    }

    /// Sets the principal: the user or service that the call acts for.
    #[must_use]
    pub fn with_principal(mut self, principal: Principal) -> Self {
        Arc::make_mut(&mut self.run).principal = Some(principal);
        self
    }

    /// Adds `value` to the [host state](RunContext::state). An earlier value of the same type is
    /// replaced.
    #[must_use]
    pub fn with_state<T: Clone + Send + Sync + 'static>(mut self, value: T) -> Self {
        let run = Arc::make_mut(&mut self.run);
        run.state = run.state.clone().with_value(value);
        self
    }

    /// Marks the call as resumed after a suspension. `resumed` contains the pending state of the
    /// call and the [decision](crate::call::Pending::resume) about it.
    #[must_use]
    pub fn with_resumed(mut self, resumed: ResumedCall) -> Self {
        self.resumed = Some(Arc::new(resumed));
        self
    }

    /// Sets the failed attempts of the tool in the run. The [driver](crate::pipeline::Batch) of a
    /// run sets them. Without them, the call is a direct call.
    #[must_use]
    pub fn with_failed_attempts(mut self, failed: FailedAttempts) -> Self {
        self.failed_attempts = Some(failed);
        self
    }

    /// Sets the deadline of the call, unless the context already has an earlier deadline. The
    /// timeout in the policy of the tool still applies.
    #[must_use]
    pub fn limit_deadline(mut self, deadline: Instant) -> Self {
        self.deadline = Some(self.deadline.map_or(deadline, |earlier| earlier.min(deadline)));
        self
    }

    pub(crate) fn with_call_scope(self, call_scope: Option<Arc<CallScope>>) -> Self {
        Self { call_scope, ..self }
    }

    /// Returns the [`CallScope`] of the running call. `None` outside a pipeline.
    pub(crate) fn call_scope(&self) -> Option<&Arc<CallScope>> {
        self.call_scope.as_ref()
    }

    /// Records that the result of this call comes from a cache, by setting
    /// [`CallRecord::is_cached`](crate::pipeline::CallRecord::is_cached).
    pub fn mark_cached(&self) {
        if let Some(scope) = self.call_scope() {
            scope.mark_cached();
        }
    }

    /// Creates the context of a nested call, in the same run and with the same deadline. The id of
    /// the nested call is `"{call_id}/{number}"`, or `"{number}"` if this call has no id.
    #[must_use]
    pub fn for_nested_call(&self, number: usize) -> Self {
        let run = match self.relayed_progress() {
            None => Arc::clone(&self.run),
            progress => Arc::new(RunContext { progress, ..RunContext::clone(&self.run) }),
        };
        let call_id =
            if self.call_id.is_empty() { number.to_string() } else { format!("{}/{number}", self.call_id) };
        let call_scope = self.call_scope.clone();
        Self { deadline: self.deadline, call_scope, ..Self::new(run, call_id) }
    }

    /// Returns a progress sink that reports the progress of nested calls as the progress of this
    /// call. `None` if the run has no progress sink.
    pub fn relayed_progress(&self) -> Option<Arc<dyn ProgressSink>> {
        let host = self.run.progress.clone()?;
        Some(Arc::new(Relay { host, call_id: Arc::clone(&self.call_id) }))
    }

    /// Returns the part of the context that all calls in the run share.
    ///
    /// A tool that runs an agent in this context declares [`OnCancel::Subtasks`], so that the tools
    /// of the agent end before the call.
    ///
    /// [`OnCancel::Subtasks`]: super::OnCancel::Subtasks
    pub fn run_context(&self) -> &RunContext {
        &self.run
    }

    /// Returns the host state of the run.
    pub fn host_state(&self) -> &HostState {
        &self.run.state
    }

    /// Returns the id of this call. Empty for a direct call without an id.
    pub fn call_id(&self) -> &str {
        &self.call_id
    }

    /// Returns the id of the run. Empty outside a run.
    pub fn run_id(&self) -> &str {
        &self.run.run_id
    }

    /// Returns the user or service that the call acts for. `None` if the host program has not set a
    /// principal.
    pub fn principal(&self) -> Option<&Principal> {
        self.run.principal.as_ref()
    }

    /// Returns `true` if the principal has the scope `scope`. Always `false` without a principal.
    pub fn has_scope(&self, scope: &str) -> bool {
        self.principal().is_some_and(|principal| principal.scopes.contains(scope))
    }

    /// Returns the host state of type `T`.
    ///
    /// # Errors
    ///
    /// Fails with [`ToolError::Fatal`] if the host program provides no value of type `T`, or if the
    /// value is [lazy](HostState::with_lazy_value) and not initialized yet. Use
    /// [`state_or_init`](Self::state_or_init) for lazy values.
    pub fn state<T: Clone + Send + Sync + 'static>(&self) -> Result<T, ToolError> {
        match self.run.state.get::<T>() {
            Some(value) => Ok(value.clone()),
            None if self.run.state.is_lazy::<T>() => Err(ToolError::Fatal(format!(
                "the state of type {} is not initialized yet: use `state_or_init`",
                type_name::<T>()
            ))),
            None => Err(no_state_error::<T>()),
        }
    }

    /// Returns the host state of type `T`. A [lazy](HostState::with_lazy_value) value is
    /// initialized first.
    ///
    /// Concurrent calls share one initialization.
    ///
    /// # Errors
    ///
    /// Fails with [`ToolError::Fatal`] if the host program provides no value of this type, and with
    /// [`ToolError::Failed`] if the initialization fails. A later call then tries the
    /// initialization again.
    pub async fn state_or_init<T: Clone + Send + Sync + 'static>(&self) -> Result<T, ToolError> {
        match self.run.state.get_or_init::<T>().await {
            Some(Ok(value)) => Ok(value.clone()),
            Some(Err(source)) => Err(ToolError::Failed {
                message: "a value needed by the tool could not be initialized; a later call may succeed"
                    .to_owned(),
                source: Some(source),
            }),
            None => Err(no_state_error::<T>()),
        }
    }

    /// Returns the cancellation token of the run.
    ///
    /// A tool that listens to the token declares [`OnCancel::Grace`]: after a cancellation, its
    /// calls then have a [grace period](crate::Pipeline::with_cancel_grace) to end by themselves,
    /// and their results are recorded. The attribute [`#[tool]`](macro@crate::tool) declares it for
    /// functions with a context. Calls to other tools are aborted at once.
    ///
    /// [`OnCancel::Grace`]: super::OnCancel::Grace
    pub fn cancellation(&self) -> &CancellationToken {
        &self.run.cancellation
    }

    /// Returns the deadline of the call. `None` if it has no deadline.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Returns the number of this call among the attempts of its tool, and the number of retries
    /// that the tool can still [request](ToolError::Retry).
    ///
    /// The run counts the attempts: each reply with a failed call to the tool adds 1, and a
    /// successful call resets the number. A call keeps its number when it is resumed after a
    /// suspension. A direct call and a nested call have the number 1 and no retries.
    pub fn attempt(&self) -> Attempt {
        Attempt::new(self.failed_attempts, self.call_scope().map_or(0, |scope| scope.retries()))
    }

    /// Returns the decision that resumed this call. `None` if the call was not suspended before.
    pub fn decision(&self) -> Option<&Decision> {
        self.resumed().map(ResumedCall::decision)
    }

    /// Returns the [data](crate::call::Pending::continuation) that the tool saved when it suspended
    /// the call. JSON `null` if the tool saved nothing. `None` if the call was not suspended
    /// before.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::{call::{Decision, Pending, PendingKind, ToolResponse}, tool, ToolContext};
    /// use serde_json::json;
    ///
    /// /// Books a seat.
    /// #[tool]
    /// fn book(#[tool(context)] cx: &ToolContext) -> ToolResponse {
    ///     match (cx.decision(), cx.continuation()) {
    ///         (Some(Decision::Input { value }), Some(offer)) => {
    ///             format!("seat {value} of offer {offer}").into()
    ///         }
    ///         _ => {
    ///             let question = Pending::new(PendingKind::input("Which seat?"));
    ///             ToolResponse::Pending(question.with_continuation(json!(7)))
    ///         }
    ///     }
    /// }
    /// ```
    pub fn continuation(&self) -> Option<&Value> {
        self.resumed().map(|resumed| &resumed.pending().continuation)
    }

    /// Returns the pending state and the decision of a resumed call. `None` if the call was not
    /// suspended before.
    pub fn resumed(&self) -> Option<&ResumedCall> {
        self.resumed.as_deref()
    }

    /// Adds `usage` to the usage of the run, for example after a model request made by the tool
    /// itself. An agent that runs with the [context](Self::run_context) of the call reports its
    /// usage itself.
    pub fn report_usage(&self, usage: Usage) {
        if let Some(meter) = &self.run.usage {
            meter.add(usage);
        }
    }

    /// Sends a progress report for this call to the progress sink of the run, if any. A panic of
    /// the sink is caught, and the report is lost.
    pub fn report_progress(&self, progress: Progress) {
        if let Some(sink) = &self.run.progress
            && let Err(panic) = catch_unwind(AssertUnwindSafe(|| sink.report(&self.call_id, progress)))
        {
            tracing::error!(call = &*self.call_id, "the `ProgressSink` panicked, the report is lost");
            log_panic_text(&*panic);
        }
    }
}

struct Relay {
    host: Arc<dyn ProgressSink>,
    call_id: Arc<str>,
}

#[async_trait]
impl ProgressSink for Relay {
    fn report(&self, _call_id: &str, progress: Progress) {
        self.host.report(&self.call_id, progress);
    }

    async fn report_event(&self, _call_id: &str, event: RunEvent) {
        self.host.report_event(&self.call_id, event).await;
    }
}

impl fmt::Debug for ToolContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolContext")
            .field("run_id", &self.run_id())
            .field("call_id", &self.call_id)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

fn no_state_error<T>() -> ToolError {
    ToolError::Fatal(format!("no state of type {}: the host program must provide one", type_name::<T>()))
}

impl fmt::Debug for RunContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunContext")
            .field("run_id", &self.run_id)
            .field("principal", &self.principal)
            .field("is_cancelled", &self.cancellation.is_cancelled())
            .finish_non_exhaustive()
    }
}
