use std::{any::type_name, collections::BTreeSet, fmt, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::{runtime::Handle, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{State, StateType, scope::CallScope};
use crate::{
    call::{Decision, Resumed, ToolError},
    usage::{Usage, UsageMeter},
};

/// What a call knows of its surroundings. Cheap to clone.
///
/// A default context has no principal, no state and no deadline, and is never cancelled.
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
    /// Present while a pipeline runs the call.
    scope: Option<Arc<CallScope>>,
    resumed: Option<Arc<Resumed>>,
}

/// What all calls of one run share.
#[derive(Clone, Default)]
pub struct RunContext {
    /// Names the run in traces and records; empty outside a run.
    pub run_id: String,
    /// On whose behalf the run acts.
    pub principal: Option<Principal>,
    /// Values of the host program for its tools.
    pub state: State,
    /// Cancels everything that the run does.
    pub cancellation: CancellationToken,
    /// Told how far long calls are.
    pub progress: Option<Arc<dyn ProgressSink>>,
    /// Takes what calls use of models. The driver of a run puts its own here.
    pub usage: Option<UsageMeter>,
    /// Where its calls run, and other code of the host that the run waits for, each on a task of its own, if not on the runtime of
    /// the driver: code that blocks there holds up neither the driver nor its clock.
    pub runtime: Option<Handle>,
}

/// On whose behalf a call is made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Principal {
    /// Who it is, in the host's words.
    pub id: String,
    /// What it may do.
    #[serde(default)]
    pub scopes: BTreeSet<String>,
}

/// How far a call is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// How much is done, in units of the tool's choice; grows.
    pub progress: f64,
    /// How much there is in all, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// What is being done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Is told how far calls are. Must return quickly: it is called on the tool's task.
pub trait ProgressSink: Send + Sync {
    /// Takes one report of the call with this id.
    fn report(&self, call_id: &str, progress: Progress);
}

impl ToolContext {
    /// Makes the context of one call in a run.
    pub fn new(run: Arc<RunContext>, call_id: impl Into<Arc<str>>) -> Self {
        Self { run, call_id: call_id.into(), deadline: None, scope: None, resumed: None }
    }

    /// Sets the id of the call.
    #[must_use]
    pub fn with_call_id(mut self, call_id: impl Into<Arc<str>>) -> Self {
        self.call_id = call_id.into();
        self
    }

    /// Sets the principal.
    #[must_use]
    pub fn with_principal(mut self, principal: Principal) -> Self {
        Arc::make_mut(&mut self.run).principal = Some(principal);
        self
    }

    /// Adds a value to the [state](RunContext::state).
    #[must_use]
    pub fn with_state<T: Clone + Send + Sync + 'static>(mut self, value: T) -> Self {
        let run = Arc::make_mut(&mut self.run);
        run.state = run.state.clone().with(value);
        self
    }

    /// Lets a call that waited go on, with the decision that it [was given](crate::call::Pending::decided).
    #[must_use]
    pub fn with_resumed(mut self, resumed: Resumed) -> Self {
        self.resumed = Some(Arc::new(resumed));
        self
    }

    /// Sets when the call must be done. The pipeline keeps the earlier of this and the tool's timeout.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Instant) -> Self {
        self.deadline = Some(self.deadline.map_or(deadline, |earlier| earlier.min(deadline)));
        self
    }

    pub(crate) fn with_scope(self, scope: Option<Arc<CallScope>>) -> Self {
        Self { scope, ..self }
    }

    /// The scope of the running call. `None` if the tool is called without a pipeline.
    pub(crate) fn scope(&self) -> Option<&Arc<CallScope>> {
        self.scope.as_ref()
    }

    /// Records a read of the host's state. `None` is a read of unknown types.
    pub(crate) fn record_read(&self, state: Option<StateType>) {
        if let Some(scope) = self.scope() {
            scope.record_read(state);
        }
    }

    /// Records that the call reads state which its tool does not declare, so that its result is not cached.
    pub fn record_undeclared_read(&self) {
        self.record_read(None);
    }

    /// Returns `true` while a pipeline runs the call.
    pub fn is_in_pipeline(&self) -> bool {
        self.scope.is_some()
    }

    /// Returns `true` if the call, or a call inside it, has read state that its tool does not
    /// [declare](super::ToolDefinition::with_state). Known only [inside a pipeline](Self::is_in_pipeline).
    pub fn reads_undeclared_state(&self) -> bool {
        self.scope().is_some_and(|scope| scope.reads_undeclared())
    }

    /// Marks the result of this call as the result of an earlier one, for the
    /// [record](crate::pipeline::CallRecord::is_cached) of the call.
    pub fn mark_cached(&self) {
        if let Some(scope) = self.scope() {
            scope.mark_cached();
        }
    }

    /// Creates the context of the `number`-th call inside this one, in the same run and with the same deadline.
    /// Its id is `"{call_id}/{number}"`.
    #[must_use]
    pub fn nested(&self, number: usize) -> Self {
        let run = match self.relayed_progress() {
            None => Arc::clone(&self.run),
            progress => Arc::new(RunContext { progress, ..RunContext::clone(&self.run) }),
        };
        let call_id =
            if self.call_id.is_empty() { number.to_string() } else { format!("{}/{number}", self.call_id) };
        let scope = self.scope.clone();
        Self { deadline: self.deadline, scope, ..Self::new(run, call_id) }
    }

    /// A sink for calls inside this one: their progress is reported as progress of this call. `None` without a host sink.
    pub fn relayed_progress(&self) -> Option<Arc<dyn ProgressSink>> {
        let host = self.run.progress.clone()?;
        Some(Arc::new(Relay { host, call_id: Arc::clone(&self.call_id) }))
    }

    /// The settings and handles that all calls of the run share.
    pub fn run(&self) -> &RunContext {
        &self.run
    }

    /// The id of this call; empty for a direct call.
    pub fn call_id(&self) -> &str {
        &self.call_id
    }

    /// The id of the run; empty outside a run.
    pub fn run_id(&self) -> &str {
        &self.run.run_id
    }

    /// On whose behalf the call is made.
    pub fn principal(&self) -> Option<&Principal> {
        self.run.principal.as_ref()
    }

    /// Whether the principal has a scope.
    pub fn has_scope(&self, scope: &str) -> bool {
        self.principal().is_some_and(|principal| principal.scopes.contains(scope))
    }

    /// A value of the host program, by its type.
    ///
    /// # Errors
    ///
    /// Fails with [`ToolError::Fatal`], which names the type, when the host gave none, and when it gave a way to
    /// [make](State::with_init) it that nobody went: [`ready_state`](Self::ready_state) goes it.
    pub fn state<T: Clone + Send + Sync + 'static>(&self) -> Result<T, ToolError> {
        self.record_read(Some(StateType::of::<T>()));
        match self.run.state.get::<T>() {
            Some(value) => Ok(value.clone()),
            None if self.run.state.can_make::<T>() => Err(ToolError::Fatal(format!(
                "the state of type {} is not made yet: wait for it by `ready_state`",
                type_name::<T>()
            ))),
            None => Err(no_state::<T>()),
        }
    }

    /// A value of the host program, by its type; where the host gave a way to [make](State::with_init) it, the first call
    /// that needs it goes that way, and others wait for it.
    ///
    /// # Errors
    ///
    /// Fails with [`ToolError::Fatal`], which names the type, when the host gave none, and with [`ToolError::Failed`] when
    /// it could not be made: the next call tries again.
    pub async fn ready_state<T: Clone + Send + Sync + 'static>(&self) -> Result<T, ToolError> {
        self.record_read(Some(StateType::of::<T>()));
        match self.run.state.ready::<T>().await {
            Some(Ok(value)) => Ok(value.clone()),
            Some(Err(source)) => Err(ToolError::Failed {
                message: "something that the tool needs could not be made ready; it may work later"
                    .to_owned(),
                source: Some(source),
            }),
            None => Err(no_state::<T>()),
        }
    }

    /// Is cancelled when the run is.
    pub fn cancellation(&self) -> &CancellationToken {
        &self.run.cancellation
    }

    /// When the call must be done.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// The decision about the suspended call, if the call is resumed.
    pub fn decision(&self) -> Option<&Decision> {
        self.resumed().map(Resumed::decision)
    }

    /// What the tool [kept](crate::call::Pending::state) when it began to wait, if it did: null when it kept nothing.
    pub fn pending_state(&self) -> Option<&Value> {
        self.resumed().map(|resumed| &resumed.pending().state)
    }

    /// The pending state and the decision of a call that is resumed.
    pub fn resumed(&self) -> Option<&Resumed> {
        self.resumed.as_deref()
    }

    /// Tells what the call has used of models, so that its run counts it.
    pub fn report_usage(&self, usage: Usage) {
        if let Some(meter) = &self.run.usage {
            meter.add(usage);
        }
    }

    /// Tells whoever watches how far the call is.
    pub fn report(&self, progress: Progress) {
        if let Some(sink) = &self.run.progress {
            sink.report(&self.call_id, progress);
        }
    }
}

struct Relay {
    host: Arc<dyn ProgressSink>,
    call_id: Arc<str>,
}

impl ProgressSink for Relay {
    fn report(&self, _call_id: &str, progress: Progress) {
        self.host.report(&self.call_id, progress);
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

fn no_state<T>() -> ToolError {
    ToolError::Fatal(format!("no state of type {}: the host program must give one", type_name::<T>()))
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
