use std::{
    any::{Any, TypeId, type_name},
    collections::{BTreeSet, HashMap},
    fmt,
    sync::Arc,
};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{StateType, ToolError};
use crate::{Answer, Resumed, in_flight::InFlight};

/// What a call knows of its surroundings. Cheap to clone.
///
/// A default context has no principal, no state and no deadline, and is never cancelled.
#[derive(Clone, Default)]
pub struct ToolContext {
    run: Arc<RunContext>,
    call_id: Arc<str>,
    deadline: Option<Instant>,
    /// Held, never read: as long as it lives the call does.
    _in_flight: Option<Arc<InFlight>>,
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
}

/// On whose behalf a call is made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
        Self { run, call_id: call_id.into(), deadline: None, _in_flight: None, resumed: None }
    }

    /// Makes a context outside a run that gives tools this state.
    pub fn with_state(state: State) -> Self {
        Self { run: Arc::new(RunContext { state, ..RunContext::default() }), ..Self::default() }
    }

    /// Lets a call that waited go on, with the answer that it [was given](crate::Pending::answered).
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

    /// This context for a call that is counted for as long as a clone of it lives.
    pub(crate) fn in_flight(self, token: Option<Arc<InFlight>>) -> Self {
        Self { _in_flight: token, ..self }
    }

    pub(crate) fn run(&self) -> &RunContext {
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
    /// Fails with [`ToolError::Fatal`], which names the type, when the host gave none.
    pub fn state<T: Clone + Send + Sync + 'static>(&self) -> Result<T, ToolError> {
        self.run.state.get::<T>().cloned().ok_or_else(|| {
            ToolError::Fatal(format!("no state of type {}: the host program must give one", type_name::<T>()))
        })
    }

    /// Is cancelled when the run is.
    pub fn cancellation(&self) -> &CancellationToken {
        &self.run.cancellation
    }

    /// When the call must be done.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// The answer that the call waited for, if it did.
    pub fn answer(&self) -> Option<&Answer> {
        self.resumed().map(Resumed::answer)
    }

    /// What the tool [kept](crate::Pending::state) when it began to wait, if it did: null when it kept nothing.
    pub fn pending_state(&self) -> Option<&Value> {
        self.resumed().map(|resumed| &resumed.pending().state)
    }

    pub(crate) fn resumed(&self) -> Option<&Resumed> {
        self.resumed.as_deref()
    }

    /// Tells whoever watches how far the call is.
    pub fn report(&self, progress: Progress) {
        if let Some(sink) = &self.run.progress {
            sink.report(&self.call_id, progress);
        }
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

/// Values of the host program for its tools: at most one of each type.
///
/// State is not saved: a resumed run gets it again.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use haft_core::State;
///
/// let state = State::new().with(Arc::new(vec!["an", "index"])).with(7_u32);
/// assert_eq!(state.get::<u32>(), Some(&7));
/// assert_eq!(state.get::<String>(), None);
/// ```
#[derive(Clone, Default)]
pub struct State(Arc<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>);

impl State {
    /// Makes a state without values.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a value; one of the same type is replaced.
    #[must_use]
    pub fn with<T: Clone + Send + Sync + 'static>(mut self, value: T) -> Self {
        Arc::make_mut(&mut self.0).insert(TypeId::of::<T>(), Arc::new(value));
        self
    }

    /// The value of a type.
    pub fn get<T: Clone + Send + Sync + 'static>(&self) -> Option<&T> {
        self.0.get(&TypeId::of::<T>())?.downcast_ref()
    }

    /// Whether it is the same values, not only equal ones.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || (self.0.is_empty() && other.0.is_empty())
    }

    /// Those of `types` that have no value here.
    pub fn missing<'a>(&self, types: &'a [StateType]) -> impl Iterator<Item = &'a StateType> {
        types.iter().filter(|wanted| !self.0.contains_key(&wanted.id()))
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "State({} values)", self.0.len())
    }
}
