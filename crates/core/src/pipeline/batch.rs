use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    task::Poll,
};

use futures::{
    ready,
    stream::{self, FuturesUnordered, Stream, StreamExt as _},
};
use serde_json::Value;

use super::{CallDetails, CallOutcome, Pipeline, Plan, find, invoke::CalledTool};
use crate::{
    call::{ResumedCall, ToolCall},
    pipeline::ToolList,
    tool::{FailedAttempts, HostState, RunContext, ToolContext, Touch},
};

/// The tool calls of one model reply, and the context in which they run. Calls that do not conflict
/// run in parallel.
///
/// # Examples
///
/// ```
/// use haft_core::{Pipeline, ToolCall, pipeline::{Batch, BatchCall, CallOutcome}, tool, toolset::ToolList};
///
/// #[tool]
/// fn double(n: i64) -> i64 {
///     2 * n
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let first = ToolCall::new("call_1", "double", r#"{"n": 21}"#);
/// let second = ToolCall::new("call_2", "double", r#"{"n": 4}"#);
/// let second = BatchCall { denied: Some("one call is enough".to_owned()), ..BatchCall::new(second) };
/// let batch = Batch::new(ToolList::new("math", [Double]), [first.into(), second]);
/// let results = Pipeline::new().call_all(batch).await.into_iter().map(CallOutcome::into_result);
/// let texts: Vec<_> = results.map(|result| result.model_text().into_owned()).collect();
/// assert_eq!(texts, ["42", "denied: one call is enough"]);
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The tools that were offered to the model in the request for this reply.
    pub tools: ToolList,
    /// The calls, in the order of the reply.
    pub calls: Vec<BatchCall>,
    /// The context of the run, shared by all calls.
    pub run_context: Arc<RunContext>,
    /// The calls of the same reply that are suspended and have no decision yet, in the order of the
    /// reply. Each call has its position: the number of [`calls`](Self::calls) before it. These
    /// calls do not run. Later calls that conflict with them are
    /// [postponed](crate::call::PendingKind::Postponed).
    pub suspended: Vec<(usize, ToolCall)>,
}

/// A tool call of a [`Batch`], and what the driver of the run knows about it.
#[derive(Clone, Debug)]
pub struct BatchCall {
    /// The call.
    pub call: ToolCall,
    /// The pending state of the call and the decision about it, if it is resumed after a
    /// suspension.
    pub resumed: Option<ResumedCall>,
    /// Additional host state for this call. It takes precedence over host state of the same type in
    /// [`Batch::run_context`].
    pub state: HostState,
    /// The failed attempts of the tool in the run. The number of the call's
    /// [attempt](ToolContext::attempt) follows from it.
    pub failed_attempts: FailedAttempts,
    /// The reason why the call must not run. It then fails with
    /// [`ToolError::Denied`](crate::call::ToolError::Denied).
    pub denied: Option<String>,
    /// `true` if the arguments come from
    /// [`Pipeline::repair_arguments`](super::Pipeline::repair_arguments). The [repair
    /// hooks](super::RepairHook) are then not called.
    pub is_repaired: bool,
}

impl BatchCall {
    /// Creates a call that is neither resumed nor denied, to a tool without failed attempts.
    pub fn new(call: ToolCall) -> Self {
        Self {
            call,
            resumed: None,
            state: HostState::default(),
            failed_attempts: FailedAttempts::default(),
            denied: None,
            is_repaired: false,
        }
    }
}

impl From<ToolCall> for BatchCall {
    fn from(call: ToolCall) -> Self {
        Self::new(call)
    }
}

impl Pipeline {
    /// Runs the calls of `batch` in parallel, each on its own task. The stream yields each outcome
    /// when its call completes, together with the index of the call in the batch.
    ///
    /// [Conflicting](crate::tool::TouchFn) calls run in the order of the batch: a call starts after
    /// all earlier calls that conflict with it have finished. A call to a
    /// [sequential](crate::tool::ToolPolicy::sequential) tool conflicts with all other calls.
    ///
    /// If an earlier conflicting call is suspended, the call does not start, and it is pending with
    /// [`PendingKind::Postponed`](crate::call::PendingKind::Postponed). Outcomes without a run of
    /// the tool are available at once: invalid arguments, a denial, or the request for a required
    /// [approval](crate::tool::ToolPolicy::requires_approval). If a [repair
    /// hook](crate::pipeline::RepairHook) could repair the arguments, the call is postponed.
    ///
    /// On a multi-thread runtime, a tool that blocks its thread delays only its own call. On a
    /// current-thread runtime, it delays all calls.
    ///
    /// # Cancellation
    ///
    /// Dropping the stream aborts all running calls. Side effects may already have happened.
    pub fn stream_batch(&self, batch: Batch) -> impl Stream<Item = (usize, CallOutcome)> + Send + 'static {
        let mut schedule = self.schedule(&batch);
        let (pipeline, batch) = (self.clone(), Arc::new(batch));
        let outcome = move |ScheduledCall { position, index, .. }: ScheduledCall, is_postponed| {
            let (pipeline, batch) = (pipeline.clone(), Arc::clone(&batch));
            async move {
                let call = batch.calls.get(index)?;
                let plan = Plan::new(call, is_postponed);
                Some((position, index, pipeline.run_in_batch(&batch, call, plan).await))
            }
        };
        let mut running = FuturesUnordered::new();
        stream::poll_fn(move |cx| {
            running.extend(schedule.take_startable().map(|(call, is_postponed)| outcome(call, is_postponed)));
            let completed = ready!(running.poll_next_unpin(cx)).flatten();
            Poll::Ready(completed.map(|(position, index, outcome)| {
                schedule.complete(position, &outcome);
                (index, outcome)
            }))
        })
    }

    /// Runs the calls of `batch` in parallel, like [`stream_batch`](Self::stream_batch), and
    /// returns all outcomes in the order of the calls.
    ///
    /// # Cancellation
    ///
    /// Dropping the future aborts all running calls, as for [`stream_batch`](Self::stream_batch).
    pub async fn call_all(&self, batch: Batch) -> Vec<CallOutcome> {
        let mut outcomes: Vec<_> = self.stream_batch(batch).collect().await;
        outcomes.sort_by_key(|(index, _)| *index);
        outcomes.into_iter().map(|(_, outcome)| outcome).collect()
    }

    async fn run_in_batch(&self, batch: &Batch, it: &BatchCall, plan: Plan<'_>) -> CallOutcome {
        let BatchCall { call, resumed, state, failed_attempts, is_repaired, .. } = it;
        let run = if state.is_empty() {
            Arc::clone(&batch.run_context)
        } else {
            let state = state.clone().with_defaults(&batch.run_context.state);
            Arc::new(RunContext { state, ..RunContext::clone(&batch.run_context) })
        };
        let mut cx = ToolContext::new(run, call.id.as_str()).with_failed_attempts(*failed_attempts);
        if let Some(resumed) = resumed {
            cx = cx.with_resumed(resumed.clone());
        }
        let (tool, own) = match find::find_tool(&batch.tools, &call.name) {
            Ok((tool, own)) => (Ok(CalledTool::Spawned(tool)), own),
            Err(error) => (Err(error), None),
        };
        let details = CallDetails { is_repaired: *is_repaired, ..CallDetails::default() };
        self.for_tool(own).run_call(tool, call, &cx, plan, Some(&batch.tools), details).await
    }

    /// Computes the blockers of each call in `batch`: earlier calls that must end before the call
    /// starts. Conflicts that follow from other conflicts are omitted, so the number of blockers is
    /// linear in the number of calls and touches.
    fn schedule(&self, batch: &Batch) -> Schedule {
        // The position of the most recent call that must run alone. All later calls wait for this
        // call.
        let mut barrier: Option<usize> = None;
        // For each resource: the position of the most recent call that writes the resource, and the
        // positions of the calls after it that read the resource.
        let mut users: HashMap<String, (Option<usize>, Vec<usize>)> = HashMap::new();
        let mut find_blockers = |position, call, approved| {
            let Some(touches) = self.resolve_touches(&batch.tools, call, approved) else {
                users.clear();
                return (barrier.replace(position).unwrap_or(0)..position).collect();
            };
            let mut blockers = Vec::from_iter(barrier);
            for Touch { resource, is_write } in touches {
                let (writer, readers) = users.entry(resource).or_default();
                blockers.extend(*writer);
                if is_write {
                    blockers.append(readers);
                    *writer = Some(position);
                } else {
                    readers.push(position);
                }
            }
            // A call that touches the same resource twice must not block itself.
            blockers.retain(|blocker| *blocker != position);
            blockers
        };
        let mut schedule = Schedule::default();
        let calls = batch.in_reply_order();
        let is_single = calls.len() == 1;
        for (position, (index, call)) in calls.into_iter().enumerate() {
            let resumed = index.and_then(|index| batch.calls.get(index)?.resumed.as_ref());
            let approved = resumed.and_then(ResumedCall::approved_arguments);
            // A single call has no conflicts.
            let blockers = if is_single { Vec::new() } else { find_blockers(position, call, approved) };
            match index {
                Some(index) => schedule.calls.push(ScheduledCall { position, index, blockers }),
                None => drop(schedule.suspended.insert(position)),
            }
        }
        schedule
    }

    /// Returns the resources that `call` uses. `approved` are its arguments if they were approved.
    /// `None` if the call must run alone, because its tool is sequential or its resources are
    /// unknown.
    fn resolve_touches(
        &self,
        tools: &ToolList,
        call: &ToolCall,
        approved: Option<&Value>,
    ) -> Option<Vec<Touch>> {
        let Some(tool) = tools.get(&call.name) else { return Some(Vec::new()) };
        let policy = super::definition_or_panic_error(&**tool).ok()?.policy();
        if policy.sequential {
            return None;
        }
        let Some(touches) = &policy.touches else { return Some(Vec::new()) };
        let touches = match approved {
            Some(approved) => touches.touches(approved),
            None => self.parse_arguments(tools, call).ok().and_then(|it| touches.touches(&it)),
        };
        if touches.is_none() {
            tracing::warn!(tool = call.name, call = call.id, "resources of a call unknown, it runs alone");
        }
        touches
    }
}

impl Batch {
    /// Creates a batch without a principal, host state and suspended calls. `calls` are
    /// [`ToolCall`] or [`BatchCall`] values.
    pub fn new(tools: ToolList, calls: impl IntoIterator<Item: Into<BatchCall>>) -> Self {
        Self { tools, calls: calls.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Returns the calls and the suspended calls in the order of the reply. A suspended call has no
    /// index.
    fn in_reply_order(&self) -> Vec<(Option<usize>, &ToolCall)> {
        let calls = self.calls.iter().enumerate();
        let mut calls: Vec<_> = calls.map(|(index, it)| (Some(index), &it.call)).collect();
        // The last call is inserted first, so that the earlier positions stay valid.
        for (position, call) in self.suspended.iter().rev() {
            calls.insert((*position).min(self.calls.len()), (None, call));
        }
        calls
    }
}

impl<'a> Plan<'a> {
    /// Makes the plan for `call`. `is_postponed` is `true` if an earlier conflicting call is
    /// suspended.
    fn new(call: &'a BatchCall, is_postponed: bool) -> Self {
        match &call.denied {
            Some(reason) => Self::Deny(reason),
            None if is_postponed => Self::Postpone,
            None => Self::Run,
        }
    }
}

/// The calls of a batch that have not started yet.
#[derive(Default)]
struct Schedule {
    calls: Vec<ScheduledCall>,
    /// The positions of the calls that are suspended or postponed. Calls that they block cannot
    /// start in this batch.
    suspended: BTreeSet<usize>,
}

struct ScheduledCall {
    /// The position of the call in the reply.
    position: usize,
    /// The index of the call in [`Batch::calls`].
    index: usize,
    /// The positions of the calls that must end first.
    blockers: Vec<usize>,
}

impl Schedule {
    /// Removes and returns the calls that have no blockers left, and those with a suspended
    /// blocker. The second value is `true` for a call with a suspended blocker. It must run in a
    /// later batch, after its blockers have their results.
    fn take_startable(&mut self) -> impl Iterator<Item = (ScheduledCall, bool)> {
        let Self { calls, suspended } = self;
        calls
            .extract_if(.., |call| {
                let is_postponed = call.blockers.iter().any(|blocker| suspended.contains(blocker));
                if is_postponed {
                    suspended.insert(call.position);
                }
                is_postponed || call.blockers.is_empty()
            })
            .map(|call| {
                let is_postponed = !call.blockers.is_empty();
                (call, is_postponed)
            })
    }

    /// Processes the `outcome` of the call at `position`: the calls that it blocked can start, or
    /// are postponed.
    fn complete(&mut self, position: usize, outcome: &CallOutcome) {
        match outcome {
            CallOutcome::Finished(_) => {
                let blocked = self.calls.iter_mut();
                blocked.for_each(|call| call.blockers.retain(|blocker| *blocker != position));
            }
            CallOutcome::Pending(_) => drop(self.suspended.insert(position)),
        }
    }
}
