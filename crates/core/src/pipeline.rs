//! The one way that every call takes: find → parse → repair → validate → gate → call → catch → check → bound →
//! record.
//!
//! No front door has its own copy: an agent, a server, a direct call and a test all come through
//! [`Pipeline::call`].

mod arguments;
mod batch;
mod blocking;
mod bound;
pub(crate) mod deadline;
mod ext;
mod find;
mod gate;
mod invoke;
mod list;
mod record;
mod store;

use std::{
    borrow::Cow,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures::FutureExt as _;
use serde_json::Value;
use tokio::time::Instant;
use tracing::{Instrument as _, field};

use crate::{
    Timestamp,
    call::{Outcome, PendingCall, PendingKind, ToolCall, ToolError, ToolOutcome, ToolResult},
    limits,
    schema::{Repair, RepairPolicy},
    tool::{Tool, ToolContext, ToolDefinition},
};

pub use batch::Batch;
pub(crate) use blocking::block_on;
pub use blocking::may_block;
pub use ext::ToolExt;
pub use find::unknown_tool;
pub use list::{Diagnostic, ToolList};
pub(crate) use list::{Origin, UNNAMED};
pub use record::{CallRecord, Recorder};
pub use store::{MemoryResultStore, ResultStore};

use bound::Bound;
use invoke::panicked;
use record::{Recording, Understood};

/// Runs calls. Cheap to clone; clones share the store and the recorder.
///
/// # Examples
///
/// ```
/// use haft_core::{Pipeline, schema::RepairPolicy, Toolset};
///
/// let strict = Pipeline::new().with_repair(RepairPolicy::Strict);
/// let tools = Toolset::new().with_pipeline(strict);
/// ```
#[derive(Clone)]
pub struct Pipeline(Arc<Parts>);

#[derive(Clone, Default)]
struct Parts {
    repair: RepairPolicy,
    store: Option<Arc<dyn ResultStore>>,
    /// Set if the store was chosen by the user.
    has_own_store: bool,
    recorders: Vec<Arc<dyn Recorder>>,
    /// Whether spans hold what is said.
    traces_content: bool,
    /// How many calls run on that were given up.
    abandoned: Arc<AtomicUsize>,
}

impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipeline")
            .field("repair", &self.0.repair)
            .field("has_store", &self.0.store.is_some())
            .field("recorders", &self.0.recorders.len())
            .field("traces_content", &self.0.traces_content)
            .finish()
    }
}

/// What came of a call: a result, or the need to wait.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a call is finished or pending")]
pub enum CallOutcome {
    /// The call ended.
    Finished(ToolResult),
    /// The call waits for somebody.
    Pending(PendingCall),
}

impl CallOutcome {
    fn new(call: &ToolCall, started_at: Timestamp, outcome: ToolOutcome) -> Self {
        match outcome {
            ToolOutcome::Done(output) => {
                let (id, name) = (call.id.clone(), call.name.clone());
                Self::Finished(ToolResult::at(started_at, id, name, Outcome::Done(output)))
            }
            ToolOutcome::Pending(pending) => Self::Pending(PendingCall { call: call.clone(), pending }),
        }
    }

    /// The id of the call.
    pub fn call_id(&self) -> &str {
        match self {
            Self::Finished(result) => &result.call_id,
            Self::Pending(pending) => &pending.call.id,
        }
    }

    /// The result; for a caller who cannot wait, a call that must is a failure.
    pub fn into_result(self) -> ToolResult {
        match self {
            Self::Finished(result) => result,
            Self::Pending(PendingCall { call, pending }) => {
                let error = match pending.kind {
                    PendingKind::Approval { .. } => ToolError::Denied(
                        "it needs an approval, and this caller cannot wait for one".to_owned(),
                    ),
                    _ => ToolError::failed("it waits for an answer, and this caller cannot wait for one"),
                };
                ToolResult::failed(call.id, call.name, &error)
            }
        }
    }
}

/// Repairs arguments, keeps long results in memory, records nothing.
impl Default for Pipeline {
    fn default() -> Self {
        let store: Arc<dyn ResultStore> = Arc::new(MemoryResultStore::default());
        Self(Arc::new(Parts { store: Some(store), ..Parts::default() }))
    }
}

/// What is learned of a call on its way.
#[derive(Default)]
struct Notes<'a> {
    /// Where the arguments go, if there is a record of the call.
    arguments: Option<&'a Understood>,
    repairs: Vec<Repair>,
    /// What whoever reads the result should know of the call.
    warning: Option<String>,
    /// Whether the result is one of an earlier call.
    is_cached: bool,
}

impl Notes<'_> {
    /// Keeps the arguments that fit. Those that are what came are in the call already.
    fn understood(&self, arguments: &Value, is_what_came: bool) {
        if let Some(kept) = self.arguments {
            *kept.lock().unwrap_or_else(PoisonError::into_inner) = match is_what_came {
                true => record::Arguments::AsTheyCame,
                false => record::Arguments::Others(arguments.clone()),
            };
        }
    }
}

impl Pipeline {
    /// Makes the default pipeline: it repairs arguments and keeps long results in memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a pipeline that never shortens a result: for programs, which read all of it.
    pub fn unbounded() -> Self {
        Self(Arc::default())
    }

    /// Sets whether arguments that do not fit are repaired.
    #[must_use]
    pub fn with_repair(mut self, policy: RepairPolicy) -> Self {
        Arc::make_mut(&mut self.0).repair = policy;
        self
    }

    /// Sets where the whole of a long result is kept.
    #[must_use]
    pub fn with_store(mut self, store: impl ResultStore + 'static) -> Self {
        let parts = Arc::make_mut(&mut self.0);
        parts.store = Some(Arc::new(store));
        parts.has_own_store = true;
        self
    }

    /// Sets who is told of every call.
    #[must_use]
    pub fn with_recorder(mut self, recorder: impl Recorder + 'static) -> Self {
        Arc::make_mut(&mut self.0).recorders = vec![Arc::new(recorder)];
        self
    }

    /// Sets whether spans hold the arguments and the results of calls, as the model wrote and reads them: for traces that nobody
    /// reads who must not. Default: no.
    #[must_use]
    pub fn with_traced_content(mut self, traced: bool) -> Self {
        Arc::make_mut(&mut self.0).traces_content = traced;
        self
    }

    /// Where the whole of a long result is kept.
    pub fn store(&self) -> Option<&Arc<dyn ResultStore>> {
        self.0.store.as_ref()
    }

    /// How many calls were given up at their deadline and run on all the same, because their code blocks.
    pub fn abandoned_calls(&self) -> usize {
        self.0.abandoned.load(Ordering::Relaxed)
    }

    /// Returns the pipeline that runs the call of `cx`, for tools that make calls of their own or read
    /// the [store](Self::store). `None` if the tool is called without a pipeline.
    pub fn current(cx: &ToolContext) -> Option<Self> {
        let parts = Arc::clone(cx.scope()?.pipeline());
        parts.downcast().ok().map(Self)
    }

    /// Returns this pipeline without its result store: results are never shortened, for a caller that is a program.
    #[must_use]
    pub fn without_store(&self) -> Self {
        let mut whole = self.clone();
        Arc::make_mut(&mut whole.0).store = None;
        whole
    }

    /// The pipeline for tools of a nested toolset: this pipeline inside `outer`.
    ///
    /// The recorders of both receive the calls. Arguments are repaired only if both pipelines repair. The store is the
    /// inner one if it was set, otherwise the outer one. Abandoned calls are counted by `outer`.
    pub(crate) fn inside(&self, outer: &Self) -> Self {
        let (inner, outer) = (&self.0, &outer.0);
        if Arc::ptr_eq(inner, outer) {
            return self.clone();
        }
        let mut recorders = inner.recorders.clone();
        for recorder in &outer.recorders {
            if !recorders.iter().any(|known| Arc::ptr_eq(known, recorder)) {
                recorders.push(Arc::clone(recorder));
            }
        }
        let is_strict = [inner.repair, outer.repair].contains(&RepairPolicy::Strict);
        let own_store = inner.store.as_ref().filter(|_| inner.has_own_store);
        let store = own_store.or(outer.store.as_ref()).or(inner.store.as_ref()).cloned();
        Self(Arc::new(Parts {
            repair: if is_strict { RepairPolicy::Strict } else { inner.repair },
            store,
            has_own_store: inner.has_own_store || outer.has_own_store,
            recorders,
            traces_content: inner.traces_content || outer.traces_content,
            abandoned: Arc::clone(&outer.abandoned),
        }))
    }

    /// The pipeline that runs the calls of a listed tool: that of its toolset, if it has one of its own.
    fn or_own(&self, own: Option<&Self>) -> Cow<'_, Self> {
        own.map_or(Cow::Borrowed(self), |inner| Cow::Owned(inner.inside(self)))
    }

    /// Runs one call on the caller's task.
    ///
    /// It survives a panic of the tool, not code that blocks the thread: for that, see [`batch`](Self::batch).
    ///
    /// # Cancellation
    ///
    /// Dropping the future cancels the tool. An effect that was under way may have happened.
    pub async fn call(&self, tools: &ToolList, call: &ToolCall, cx: &ToolContext) -> CallOutcome {
        let (tool, own) = match find::find(tools, &call.name) {
            Ok((tool, own)) => (Ok(&**tool), own),
            Err(error) => (Err(error), None),
        };
        self.or_own(own).run(tool, call, cx, invoke::Host::Caller, Some(tools)).await
    }

    /// Runs one call of a tool at hand, with a value for arguments, on the caller's task.
    ///
    /// # Cancellation
    ///
    /// As for [`call`](Self::call).
    pub async fn call_tool(&self, tool: &dyn Tool, arguments: Value, cx: &ToolContext) -> CallOutcome {
        let call = ToolCall::new(cx.call_id(), tool.definition().name().as_str(), arguments);
        self.run(Ok(tool), &call, cx, invoke::Host::Caller, None).await
    }

    /// Holds a call against its tool without making it: that there is one, and that the arguments fit or can be repaired.
    ///
    /// # Errors
    ///
    /// Fails with what the call would fail with, in the same words.
    pub fn validate(&self, tools: &ToolList, call: &ToolCall) -> Result<(), ToolError> {
        self.arguments(tools, call).map(drop)
    }

    /// Returns the arguments that the tool of a call would receive.
    fn arguments<'a>(&self, tools: &ToolList, call: &'a ToolCall) -> Result<Cow<'a, Value>, ToolError> {
        let (tool, own) = find::find(tools, &call.name)?;
        let (definition, repair) = (definition(&**tool)?, self.or_own(own).0.repair);
        let mut notes = Notes::default();
        let arguments = arguments::parse(&call.arguments, limits::ARGUMENT_BYTES, repair, &mut notes)?;
        arguments::fit(definition, arguments, repair, &mut notes)
    }

    async fn run(
        &self,
        tool: Result<&dyn Tool, ToolError>,
        call: &ToolCall,
        cx: &ToolContext,
        host: invoke::Host<'_>,
        tools: Option<&ToolList>,
    ) -> CallOutcome {
        let span = tracing::info_span!(
            "execute_tool",
            gen_ai.operation.name = "execute_tool",
            gen_ai.tool.name = call.name,
            gen_ai.tool.call.id = call.id,
            gen_ai.tool.call.arguments = self.0.traces_content.then_some(call.arguments.as_str()),
            gen_ai.tool.call.result = field::Empty,
        );
        let (started_at, started) = (Timestamp::now(), Instant::now());
        let tool = tool.and_then(|tool| Ok((tool, span.in_scope(|| definition(tool))?)));
        let definition = tool.as_ref().ok().map(|(_, definition)| *definition);
        let arguments_kept = Understood::default();
        let has_recorder = !self.0.recorders.is_empty();
        let recording = has_recorder.then(|| Recording {
            recorders: &self.0.recorders,
            definition,
            call,
            arguments: &arguments_kept,
            context: cx,
            started_at,
            started,
            is_over: false,
        });
        let kept = recording.is_some().then_some(&arguments_kept);
        let mut notes = Notes { arguments: kept, ..Notes::default() };
        // Without a list, the arguments are a value of a program and not text of a model.
        let max_bytes = if tools.is_some() { limits::ARGUMENT_BYTES } else { usize::MAX };
        // A panic of the tool or of a layer costs this call only.
        let stages = self.take_through(tool, (call, max_bytes), cx, host, started, &mut notes);
        let ended = AssertUnwindSafe(stages).catch_unwind().instrument(span.clone()).await;
        let mut outcome = match ended {
            Ok(Ok(outcome)) => CallOutcome::new(call, started_at, outcome),
            Ok(Err(error)) => span.in_scope(|| record::failed(call, &error)),
            Err(panic) => span.in_scope(|| record::failed(call, &panicked(&*panic))),
        };
        if let CallOutcome::Finished(result) = &mut outcome {
            result.warnings.extend(notes.warning);
            result.repairs = std::mem::take(&mut notes.repairs);
            (result.started_at, result.duration) = (started_at, started.elapsed());
            if let Some(store) = self.store() {
                let limit = definition.map_or(limits::RESULT_BYTES, |it| it.policy().output_limit);
                let is_part = definition.is_some_and(ToolDefinition::reads_results);
                Bound { limit, store: &**store, cx, tools, is_part }.apply(result).await;
            }
            if self.0.traces_content {
                span.record("gen_ai.tool.call.result", &*result.model_text());
            }
        }
        if let Some(recording) = recording {
            recording.end(&outcome, notes.is_cached);
        }
        outcome
    }

    /// The way of a call, from a tool that was found to a checked outcome.
    async fn take_through(
        &self,
        tool: Result<(&dyn Tool, &ToolDefinition), ToolError>,
        (call, max_bytes): (&ToolCall, usize),
        cx: &ToolContext,
        host: invoke::Host<'_>,
        started: Instant,
        notes: &mut Notes<'_>,
    ) -> Result<ToolOutcome, ToolError> {
        let (tool, definition) = tool?;
        let arguments = arguments::parse(&call.arguments, max_bytes, self.0.repair, notes)?;
        let arguments = arguments::fit(definition, arguments, self.0.repair, notes)?;
        notes.understood(&arguments, notes.repairs.is_empty());
        let (arguments, approved) = match gate::pass(definition, arguments.into_owned(), cx)? {
            gate::Passage::Open { arguments, approved, are_others } => {
                notes.warning =
                    are_others.then(|| format!("it was approved with other arguments: {arguments}"));
                if are_others {
                    notes.understood(&arguments, false);
                }
                (arguments, approved)
            }
            gate::Passage::Answered(output) => {
                definition.check_output(&output)?;
                return Ok(ToolOutcome::Done(output));
            }
            gate::Passage::Waits(pending) => return Ok(ToolOutcome::Pending(pending)),
        };
        let mut outcome = self.invoke(host, tool, arguments, cx, started, notes).await?;
        match &mut outcome {
            ToolOutcome::Done(output) => definition.check_output(output)?,
            ToolOutcome::Pending(pending) => {
                pending.definition = approved.is_some().then(|| definition.fingerprint());
                pending.approved = approved;
            }
        }
        Ok(outcome)
    }
}

/// A tool says what it is by code of its own, which may panic.
fn definition(tool: &dyn Tool) -> Result<&ToolDefinition, ToolError> {
    catch_unwind(AssertUnwindSafe(|| tool.definition())).map_err(|panic| panicked(&*panic))
}
