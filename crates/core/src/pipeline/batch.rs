use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    task::Poll,
};

use futures::{
    ready,
    stream::{self, FuturesUnordered, Stream, StreamExt as _},
};

use super::{CallOutcome, CallRules, Pipeline, find, invoke::CallTask};
use crate::{
    call::{ResumedCall, ResumedCalls, ToolCall},
    pipeline::ToolList,
    tool::{FailedAttempts, HostState, RunContext, ToolContext, Touch},
};

/// The tool calls of one model reply, and the context in which they run. Calls that do not conflict
/// run in parallel.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The tools that were offered to the model in the request for this reply.
    pub tools: ToolList,
    /// The calls, in the order of the reply.
    pub calls: Vec<ToolCall>,
    /// The pending states and decisions of calls that are resumed after a suspension, by call id.
    pub resumed: ResumedCalls,
    /// The context of the run, shared by all calls.
    pub run_context: Arc<RunContext>,
    /// Additional host state for individual calls, by call id. It takes precedence over host state
    /// of the same type in [`run_context`](Self::run_context).
    pub call_states: BTreeMap<String, HostState>,
    /// The failed attempts of the tools in the run, by tool name. The number of a call's
    /// [attempt](ToolContext::attempt) follows from it.
    pub failed_attempts: BTreeMap<String, FailedAttempts>,
    /// Calls that must not run, with the reason, by call id. They fail with
    /// [`ToolError::Denied`](crate::call::ToolError::Denied).
    pub denied: BTreeMap<String, String>,
    /// The ids of the calls with arguments from
    /// [`Pipeline::repair_arguments`](super::Pipeline::repair_arguments). The [repair
    /// hooks](super::RepairHook) are not called for these calls.
    pub repaired: BTreeSet<String>,
    /// The calls of the same reply that are suspended and have no decision yet, in the order of the
    /// reply. Each call has its position: the number of [`calls`](Self::calls) before it. These
    /// calls do not run. Later calls that conflict with them are
    /// [postponed](crate::call::PendingKind::Postponed).
    pub suspended: Vec<(usize, ToolCall)>,
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
        let outcome = move |ScheduledCall { position, index, .. }: ScheduledCall, start: Start| {
            let (pipeline, batch) = (pipeline.clone(), Arc::clone(&batch));
            async move {
                let call = batch.calls.get(index)?;
                Some((position, index, pipeline.run_in_batch(&batch, call, start).await))
            }
        };
        let mut running = FuturesUnordered::new();
        stream::poll_fn(move |cx| {
            running.extend(schedule.take_startable().map(|(call, start)| outcome(call, start)));
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

    async fn run_in_batch(&self, batch: &Batch, call: &ToolCall, start: Start) -> CallOutcome {
        let run = match batch.call_states.get(&call.id) {
            None => Arc::clone(&batch.run_context),
            Some(own) => {
                let state = own.clone().with_defaults(&batch.run_context.state);
                Arc::new(RunContext { state, ..RunContext::clone(&batch.run_context) })
            }
        };
        let failed = batch.failed_attempts.get(&call.name).copied().unwrap_or_default();
        let mut cx = ToolContext::new(run, call.id.as_str()).with_failed_attempts(failed);
        if let Some(resumed) = batch.resumed.get(&call.id) {
            cx = cx.with_resumed(resumed.clone());
        }
        let (tool, task, own) = match find::find_tool(&batch.tools, &call.name) {
            Ok((tool, own)) => (Ok(&**tool), CallTask::Spawned(tool), own),
            Err(error) => (Err(error), CallTask::Caller, None),
        };
        let task = match (batch.denied.get(&call.id), start) {
            (Some(reason), _) => CallTask::Denied(reason),
            (None, Start::Later) => CallTask::Postponed,
            (None, Start::Now) => task,
        };
        let rules = CallRules { task, is_repaired: batch.repaired.contains(&call.id) };
        self.for_tool(own).run_call(tool, call, &cx, rules, Some(&batch.tools)).await
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
        let mut find_blockers = |position, call| {
            let Some(touches) = self.resolve_touches(batch, call) else {
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
            // A single call has no conflicts.
            let blockers = if is_single { Vec::new() } else { find_blockers(position, call) };
            let Some(index) = index else {
                schedule.suspended.insert(position);
                continue;
            };
            schedule.calls.push(ScheduledCall { position, index, blockers });
        }
        schedule
    }

    /// Returns the resources that `call` uses. `None` if the call must run alone, because its tool
    /// is sequential or its resources are unknown.
    fn resolve_touches(&self, batch: &Batch, call: &ToolCall) -> Option<Vec<Touch>> {
        let Some(tool) = batch.tools.get(&call.name) else { return Some(Vec::new()) };
        let policy = super::definition_or_panic_error(&**tool).ok()?.policy();
        if policy.sequential {
            return None;
        }
        let Some(touches) = &policy.touches else { return Some(Vec::new()) };
        let touches = match batch.resumed.get(&call.id).and_then(ResumedCall::approved_arguments) {
            Some(approved) => touches.touches(approved),
            None => self.parse_arguments(&batch.tools, call).ok().and_then(|it| touches.touches(&it)),
        };
        if touches.is_none() {
            tracing::warn!(tool = call.name, call = call.id, "resources of a call unknown, it runs alone");
        }
        touches
    }
}

impl Batch {
    /// Returns the calls and the suspended calls in the order of the reply. A suspended call has no
    /// index.
    fn in_reply_order(&self) -> Vec<(Option<usize>, &ToolCall)> {
        let mut calls: Vec<_> = self.calls.iter().enumerate().map(|(index, it)| (Some(index), it)).collect();
        // The last call is inserted first, so that the earlier positions stay valid.
        for (position, call) in self.suspended.iter().rev() {
            calls.insert((*position).min(self.calls.len()), (None, call));
        }
        calls
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

#[derive(Clone, Copy)]
enum Start {
    Now,
    /// In a later batch, after the suspended blockers have their results.
    Later,
}

impl Schedule {
    /// Removes and returns the calls that have no blockers left, and those with a suspended
    /// blocker.
    fn take_startable(&mut self) -> impl Iterator<Item = (ScheduledCall, Start)> {
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
                let start = if call.blockers.is_empty() { Start::Now } else { Start::Later };
                (call, start)
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
