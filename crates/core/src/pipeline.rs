//! The pipeline of every tool call: find → parse → repair → validate → gate → call → catch → check
//! → truncate → record.
//!
//! Agents, the MCP server, direct calls and tests all use the same pipeline.

mod arguments;
mod batch;
mod block_on;
pub(crate) mod deadline;
mod find;
mod gate;
mod invoke;
mod outcome;
mod record;
mod repair_hook;
mod result_store;
mod tool_ext;
mod tool_list;
mod truncate;

use std::{
    borrow::Cow,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::FutureExt as _;
use serde_json::Value;
use tokio::time::Instant;
use tracing::{Instrument as _, field};

use crate::{
    Timestamp,
    call::{Failure, Pending, PendingKind, ToolCall, ToolError, ToolResponse},
    limits,
    schema::{Repair, RepairPolicy},
    tool::{FailedCall, FailureHook, Tool, ToolContext, ToolDefinition},
};

pub use batch::{Batch, BatchCall};
pub(crate) use block_on::block_on;
pub use block_on::can_block_thread;
pub use find::unknown_tool_message;
pub use outcome::CallOutcome;
pub use record::{CallRecord, Recorder};
pub use repair_hook::{InvalidCall, RepairHook};
pub use result_store::{MemoryResultStore, ResultStore};
pub use tool_ext::ToolExt;
pub(crate) use tool_list::{DEFAULT_LABEL, Origin};
pub use tool_list::{Diagnostic, ToolList};

use gate::GateOutcome;
use invoke::{CalledTool, panic_error};
use record::{ArgumentSlot, RecordGuard, RecordedArguments};
use repair_hook::RepairHooks;
use truncate::Truncator;

/// The pipeline that runs tool calls. It is cheap to clone, and clones share the result store and
/// the recorders.
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
pub struct Pipeline(Arc<PipelineInner>);

#[derive(Clone, Default)]
struct PipelineInner {
    repair: RepairPolicy,
    store: Option<Arc<dyn ResultStore>>,
    /// `true` if `store` was set with [`Pipeline::with_store`]. If it was not, and this is the
    /// pipeline of an inner toolset, the store of the outer pipeline takes precedence.
    has_own_store: bool,
    recorders: Vec<Arc<dyn Recorder>>,
    /// The default timeout of a call. `None` if it was not set.
    timeout: Option<Duration>,
    failure_hooks: Vec<FailureHook>,
    repair_hooks: RepairHooks,
    /// `true` if the arguments and results of calls are added to their tracing spans.
    traces_content: bool,
    /// The number of abandoned calls, see [`Pipeline::abandoned_calls`].
    abandoned_calls: Arc<AtomicUsize>,
    /// The grace period of cancelled calls. `None` for [`limits::CANCEL_GRACE`].
    cancel_grace: Option<Duration>,
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

/// The default pipeline repairs arguments, stores long results in memory, and has no recorder.
impl Default for Pipeline {
    fn default() -> Self {
        let store: Arc<dyn ResultStore> = Arc::new(MemoryResultStore::default());
        Self(Arc::new(PipelineInner { store: Some(store), ..PipelineInner::default() }))
    }
}

/// Details that the pipeline collects during a call, for the result and the [`CallRecord`].
struct CallDetails<'a> {
    /// The maximum length of the arguments, in bytes.
    max_argument_bytes: usize,
    /// The slot in which the validated arguments are stored for the [`CallRecord`]. `None` if the
    /// pipeline has no recorder.
    arguments: Option<&'a ArgumentSlot>,
    repairs: Vec<Repair>,
    /// The warning to add to the result. Set if the arguments were changed when the call was
    /// approved.
    warning: Option<String>,
    /// `true` if the result comes from a cache and the tool did not run.
    is_cached: bool,
    /// `true` if the repair hooks have already repaired the arguments and are not called.
    is_repaired: bool,
}

/// The plan for a call. It is made once, before any step of the pipeline.
#[derive(Clone, Copy)]
enum Plan<'a> {
    /// Run the call.
    Run,
    /// Deny the call for this reason.
    Deny(&'a str),
    /// Postpone the call where it would run, because an earlier conflicting call is suspended. All
    /// other outcomes, such as invalid arguments or a request for an approval, are independent of
    /// the earlier call.
    Postpone,
}

impl Default for CallDetails<'_> {
    fn default() -> Self {
        Self {
            max_argument_bytes: limits::ARGUMENT_BYTES,
            arguments: None,
            repairs: Vec::new(),
            warning: None,
            is_cached: false,
            is_repaired: false,
        }
    }
}

impl CallDetails<'_> {
    /// Stores the validated `arguments` for the recorders. Does nothing without a recorder.
    /// Unchanged arguments are not copied, because the call already contains them.
    fn record_arguments(&self, arguments: &Value, is_unchanged: bool) {
        if let Some(slot) = self.arguments {
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = match is_unchanged {
                true => RecordedArguments::AsReceived,
                false => RecordedArguments::Changed(arguments.clone()),
            };
        }
    }
}

impl Pipeline {
    /// Creates the default pipeline: it repairs arguments and stores long results in memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a pipeline without a result store. It does not truncate results. Use it if a
    /// program, and not a model, reads the results.
    ///
    /// If an inner toolset has this pipeline, the result store of the outer pipeline still applies.
    pub fn unbounded() -> Self {
        Self(Arc::default())
    }

    /// Sets the policy for repairing invalid arguments. Default: [`RepairPolicy::Default`].
    #[must_use]
    pub fn with_repair(mut self, policy: RepairPolicy) -> Self {
        Arc::make_mut(&mut self.0).repair = policy;
        self
    }

    /// Sets the store for results that are too long for the model. Default: a
    /// [`MemoryResultStore`].
    #[must_use]
    pub fn with_store(mut self, store: impl ResultStore + 'static) -> Self {
        let inner = Arc::make_mut(&mut self.0);
        inner.store = Some(Arc::new(store));
        inner.has_own_store = true;
        self
    }

    /// Adds a recorder that receives a record of each call, after the recorders added before.
    /// Default: no recorder.
    #[must_use]
    pub fn with_recorder(mut self, recorder: impl Recorder + 'static) -> Self {
        Arc::make_mut(&mut self.0).recorders.push(Arc::new(recorder));
        self
    }

    /// Enables or disables tracing of the arguments and results of calls. Default: disabled.
    ///
    /// If enabled, the span of each call has the attribute `gen_ai.tool.call.arguments` and, once
    /// the call has finished, `gen_ai.tool.call.result`. The data is not redacted, so enable
    /// tracing only if all readers of the traces are allowed to see it.
    #[must_use]
    pub fn with_traced_content(mut self, traced: bool) -> Self {
        Arc::make_mut(&mut self.0).traces_content = traced;
        self
    }

    /// Sets the grace period of cancelled calls. Default: [`limits::CANCEL_GRACE`]. With
    /// zero, calls without nested calls are aborted at once. Calls with nested calls still have
    /// [`limits::ABORT_WAIT`].
    ///
    /// If the run is cancelled, a call to a tool with [`OnCancel::Grace`] has this period to end by
    /// itself. A call with nested calls, or to a tool with [`OnCancel::Subtasks`], such as an agent
    /// used as a tool, has [`limits::ABORT_WAIT`] in addition. A result within the
    /// period is the result of the call. Other calls, and calls that exceed the period, are
    /// aborted. The pipeline waits for the end of an aborted call, at most for
    /// [`limits::ABORT_WAIT`], so that its locks and files are free when it reports the
    /// cancellation. A call that blocks its thread for longer is
    /// [abandoned](Self::abandoned_calls).
    ///
    /// [`OnCancel::Grace`]: crate::tool::OnCancel::Grace
    /// [`OnCancel::Subtasks`]: crate::tool::OnCancel::Subtasks
    ///
    /// If this is the pipeline of an inner toolset, the period of the outer pipeline takes
    /// precedence.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use haft_core::{Pipeline, Toolset};
    ///
    /// let pipeline = Pipeline::new().with_cancel_grace(Duration::from_secs(5));
    /// let tools = Toolset::new().with_pipeline(pipeline);
    /// ```
    #[must_use]
    pub fn with_cancel_grace(mut self, grace: Duration) -> Self {
        Arc::make_mut(&mut self.0).cancel_grace = Some(grace);
        self
    }

    /// Sets the default timeout of a call, for tools without a
    /// [timeout](crate::tool::ToolPolicy::timeout). Default: that of the outer pipeline if this is
    /// the pipeline of an inner toolset, or else [`limits::CALL_TIMEOUT`].
    ///
    /// Zero is an error of [`Toolset::check`](crate::Toolset::check).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use haft_core::{Pipeline, Toolset};
    ///
    /// let quick = Pipeline::new().with_timeout(Duration::from_secs(10));
    /// let tools = Toolset::new().with_pipeline(quick);
    /// assert_eq!(tools.pipeline().timeout(), Some(Duration::from_secs(10)));
    /// ```
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        Arc::make_mut(&mut self.0).timeout = Some(timeout);
        self
    }

    /// Adds a [hook](FailureHook) that can replace the failures of calls, for example their text
    /// for the model. It is called after the hook of the tool and the hooks added before.
    #[must_use]
    pub fn with_failure_hook(
        mut self,
        hook: impl Fn(&FailedCall<'_>) -> Option<Failure> + Send + Sync + 'static,
    ) -> Self {
        Arc::make_mut(&mut self.0).failure_hooks.push(FailureHook::new(hook));
        self
    }

    /// Adds a [hook](RepairHook) that repairs invalid arguments. It is called if the hooks added
    /// before return no valid arguments.
    #[must_use]
    pub fn with_repair_hook(mut self, hook: impl RepairHook + 'static) -> Self {
        Arc::make_mut(&mut self.0).repair_hooks.push(Arc::new(hook));
        self
    }

    /// Returns the default timeout of a call. `None` if it was not set.
    pub fn timeout(&self) -> Option<Duration> {
        self.0.timeout
    }

    /// Returns the timeout of a call to the tool with `definition`.
    fn timeout_of(&self, definition: &ToolDefinition) -> Duration {
        definition.policy().timeout.or(self.0.timeout).unwrap_or(limits::CALL_TIMEOUT)
    }

    /// Returns the store for results that are too long for the model. `None` if the pipeline has no
    /// store. Without a store, results are not truncated.
    pub fn store(&self) -> Option<&Arc<dyn ResultStore>> {
        self.0.store.as_ref()
    }

    /// Returns the number of abandoned calls: calls that timed out or were cancelled, but whose
    /// code is still running, for example because it blocks a thread and cannot be stopped.
    pub fn abandoned_calls(&self) -> usize {
        self.0.abandoned_calls.load(Ordering::Relaxed)
    }

    /// Returns the pipeline that runs the call with the context `cx`. `None` if the tool was called
    /// without a pipeline.
    ///
    /// A tool can use this pipeline to call other tools and to read the [result
    /// store](Self::store).
    pub fn current(cx: &ToolContext) -> Option<Self> {
        let inner = Arc::clone(cx.call_scope()?.pipeline());
        inner.downcast().ok().map(Self)
    }

    /// Returns the pipeline for calls to the tools of an inner toolset. `self` is the pipeline of
    /// the inner toolset, and `outer` the pipeline of the toolset that contains it.
    ///
    /// The recorders of both pipelines receive the calls. Arguments are repaired only if both
    /// pipelines repair arguments. Long results are saved in the store of `self` if it was set with
    /// [`with_store`](Self::with_store). If it was not, they are saved in the store of `outer`, or
    /// in the default store of `self` if `outer` has no store. Abandoned calls are counted in
    /// `outer`. Arguments and results are traced if either pipeline traces them. The timeout and
    /// the hooks of `self` precede those of `outer`. The repair hooks of `outer` are not used if
    /// `self` rejects all invalid arguments.
    pub(crate) fn nested_in(&self, outer: &Self) -> Self {
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
        let failure_hooks = [&*inner.failure_hooks, &outer.failure_hooks].concat();
        let mut repair_hooks = inner.repair_hooks.clone();
        if inner.repair != RepairPolicy::Strict {
            repair_hooks.extend_from_slice(&outer.repair_hooks);
        }
        let own_store = inner.store.as_ref().filter(|_| inner.has_own_store);
        let store = own_store.or(outer.store.as_ref()).or(inner.store.as_ref()).cloned();
        Self(Arc::new(PipelineInner {
            repair: if is_strict { RepairPolicy::Strict } else { inner.repair },
            store,
            has_own_store: inner.has_own_store || outer.has_own_store,
            recorders,
            timeout: inner.timeout.or(outer.timeout),
            failure_hooks,
            repair_hooks,
            traces_content: inner.traces_content || outer.traces_content,
            abandoned_calls: Arc::clone(&outer.abandoned_calls),
            cancel_grace: outer.cancel_grace.or(inner.cancel_grace),
        }))
    }

    /// Returns the pipeline for calls to a listed tool. `own` is the pipeline of the tool's
    /// toolset, and the result is `own` [nested in](Self::nested_in) this pipeline. If `own` is
    /// `None`, the result is this pipeline.
    fn for_tool(&self, own: Option<&Self>) -> Cow<'_, Self> {
        own.map_or(Cow::Borrowed(self), |inner| Cow::Owned(inner.nested_in(self)))
    }

    /// Runs `call` on the task of the caller. `tools` is the list that contains the called tool.
    ///
    /// A panic of the tool is caught, and the call fails. A tool that blocks its thread also blocks
    /// the caller. To run calls on separate tasks, use [`stream_batch`](Self::stream_batch).
    ///
    /// # Cancellation
    ///
    /// Dropping the future cancels the call. Side effects may already have happened.
    pub async fn call(&self, tools: &ToolList, call: &ToolCall, cx: &ToolContext) -> CallOutcome {
        let (tool, own) = match find::find_tool(tools, &call.name) {
            Ok((tool, own)) => (Ok(CalledTool::Inline(&**tool)), own),
            Err(error) => (Err(error), None),
        };
        let details = CallDetails::default();
        self.for_tool(own).run_call(tool, call, cx, Plan::Run, Some(tools), details).await
    }

    /// Calls `tool` with `arguments` on the task of the caller.
    ///
    /// # Cancellation
    ///
    /// Dropping the future cancels the call, as for [`call`](Self::call).
    pub async fn call_tool(&self, tool: &dyn Tool, arguments: Value, cx: &ToolContext) -> CallOutcome {
        let call = ToolCall::new(cx.call_id(), tool.definition().name().as_str(), arguments);
        // The call comes from the program and not from a model, so the length of its arguments is
        // not limited.
        let details = CallDetails { max_argument_bytes: usize::MAX, ..CallDetails::default() };
        self.run_call(Ok(CalledTool::Inline(tool)), &call, cx, Plan::Run, None, details).await
    }

    /// Checks `call` without running it. The tool must be in `tools`, and the arguments must be
    /// valid or repairable.
    ///
    /// # Errors
    ///
    /// Fails with the error that [`call`](Self::call) would report for an unknown tool or invalid
    /// arguments.
    pub fn validate(&self, tools: &ToolList, call: &ToolCall) -> Result<(), ToolError> {
        self.parse_arguments(tools, call).map(drop)
    }

    /// Returns the arguments of `call` after repair and validation, without running the call. The
    /// [repair hooks](RepairHook) are not called.
    ///
    /// # Errors
    ///
    /// Fails in the same cases as [`validate`](Self::validate).
    pub fn parse_arguments<'a>(
        &self,
        tools: &ToolList,
        call: &'a ToolCall,
    ) -> Result<Cow<'a, Value>, ToolError> {
        let (tool, own) = find::find_tool(tools, &call.name)?;
        let (definition, repair) = (definition_or_panic_error(&**tool)?, self.for_tool(own).0.repair);
        let mut details = CallDetails::default();
        let arguments = arguments::parse(&call.arguments, repair, &mut details)?;
        arguments::repair_and_validate(definition, arguments, repair, &mut details)
    }

    /// Runs `call` to `tool` according to `plan`. `details` are the details known before the call.
    async fn run_call(
        &self,
        tool: Result<CalledTool<'_>, ToolError>,
        call: &ToolCall,
        cx: &ToolContext,
        plan: Plan<'_>,
        tools: Option<&ToolList>,
        details: CallDetails<'_>,
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
        let tool =
            tool.and_then(|tool| Ok((tool, span.in_scope(|| definition_or_panic_error(tool.tool()))?)));
        let definition = tool.as_ref().ok().map(|(_, definition)| *definition);
        let argument_slot = ArgumentSlot::default();
        let has_recorder = !self.0.recorders.is_empty();
        let record = has_recorder.then(|| RecordGuard {
            recorders: &self.0.recorders,
            definition,
            call,
            arguments: &argument_slot,
            context: cx,
            started_at,
            started,
            is_recorded: false,
        });
        let mut details = CallDetails { arguments: has_recorder.then_some(&argument_slot), ..details };
        // A panic of the tool, or of a middleware layer around it, affects only this call.
        let steps = self.run_steps(tool, call, cx, plan, started, &mut details);
        let response = AssertUnwindSafe(steps).catch_unwind().instrument(span.clone()).await;
        let response = response.unwrap_or_else(|panic| Err(span.in_scope(|| panic_error(&*panic))));
        let mut outcome = match response {
            Ok(response) => CallOutcome::new(call, response),
            Err(error) => span.in_scope(|| {
                let own_hook = definition.and_then(|it| it.policy().failure_hook.as_ref());
                let hooks = own_hook.into_iter().chain(&self.0.failure_hooks);
                record::failed_outcome(call, &error, definition, cx, hooks)
            }),
        };
        if let CallOutcome::Finished(result) = &mut outcome {
            result.warnings.extend(details.warning);
            result.repairs = std::mem::take(&mut details.repairs);
            (result.started_at, result.duration) = (started_at, started.elapsed());
            if let Some(store) = self.store() {
                let max_text_bytes =
                    definition.map_or(limits::RESULT_TEXT_BYTES, |it| it.policy().output_limit);
                let is_excerpt = definition.is_some_and(ToolDefinition::reads_results);
                Truncator { max_text_bytes, store: &**store, cx, tools, is_excerpt }.truncate(result).await;
            }
            if self.0.traces_content {
                span.record("gen_ai.tool.call.result", &*result.model_text());
            }
        }
        if let Some(record) = record {
            record.finish(&outcome, details.is_cached);
        }
        outcome
    }

    /// Runs the pipeline steps between the lookup of the tool and the truncation of its result. The
    /// first step parses the arguments, the last step checks the output.
    async fn run_steps(
        &self,
        tool: Result<(CalledTool<'_>, &ToolDefinition), ToolError>,
        call: &ToolCall,
        cx: &ToolContext,
        plan: Plan<'_>,
        started: Instant,
        details: &mut CallDetails<'_>,
    ) -> Result<ToolResponse, ToolError> {
        let is_postponed = match plan {
            Plan::Run => false,
            Plan::Postpone => true,
            Plan::Deny(reason) => return Err(ToolError::Denied(reason.to_owned())),
        };
        let postponed = || Ok(ToolResponse::Pending(Pending::new(PendingKind::Postponed)));
        let (tool, definition) = tool?;
        let (arguments, repaired) = match self.parse_call(definition, call, details) {
            Ok(arguments) => (arguments, None),
            Err(error) if !self.can_replace_arguments(call, cx, details) => return Err(error),
            // The hooks run when the call runs.
            Err(_) if is_postponed => return postponed(),
            Err(error) => {
                let replaced = self.replace_arguments(call, definition, error, cx, started, details).await?;
                (Cow::Owned(replaced.clone()), Some(replaced))
            }
        };
        details.record_arguments(&arguments, details.repairs.is_empty());
        let (arguments, approved) = match gate::check(definition, arguments.into_owned(), cx)? {
            GateOutcome::Run { .. } if is_postponed => return postponed(),
            GateOutcome::Run { arguments, approved, is_changed } => {
                details.warning =
                    is_changed.then(|| format!("it was approved with other arguments: {arguments}"));
                if is_changed {
                    details.record_arguments(&arguments, false);
                }
                (arguments, approved)
            }
            GateOutcome::Done(output) => {
                definition.check_output(&output)?;
                return Ok(ToolResponse::Done(output));
            }
            GateOutcome::Suspended(mut pending) => {
                pending.repaired = repaired;
                return Ok(ToolResponse::Pending(pending));
            }
        };
        let mut response = self.invoke(tool, definition, arguments, cx, started, details).await?;
        match &mut response {
            ToolResponse::Done(output) => definition.check_output(output)?,
            // Only a batch postpones calls. Otherwise, a tool could be repeated forever.
            ToolResponse::Pending(Pending { kind: PendingKind::Postponed, .. }) => {
                return Err(ToolError::failed(
                    "the tool returned an invalid pending state; it may have done a part of its work",
                ));
            }
            ToolResponse::Pending(pending) => {
                pending.definition = approved.is_some().then(|| definition.fingerprint());
                pending.approved = approved;
                pending.repaired = repaired;
            }
        }
        Ok(response)
    }
}

/// Returns the definition of `tool`. Fails if [`Tool::definition`], which is user code, panics.
fn definition_or_panic_error(tool: &dyn Tool) -> Result<&ToolDefinition, ToolError> {
    catch_unwind(AssertUnwindSafe(|| tool.definition())).map_err(|panic| panic_error(&*panic))
}
