//! The calls of one batch and the execution state of each call. [`Run`](crate::Run) and
//! [`PendingQueue`](crate::PendingQueue) share them.

use std::{collections::BTreeMap, mem, ops::Not, sync::Arc};

use haft_core::{
    Timestamp, ToolCall, ToolResult,
    call::{
        Decision, Decisions, Failure, FailureKind, Outcome, Pending, PendingCall, PendingKind, ResumedCall,
    },
    schema::Repair,
    tool::FailedAttempts,
};
use serde::{Deserialize, Serialize};

use crate::run::{CallBatch, NewArguments, ReadyCall, RunError, ToolSnapshot};

/// A batch of calls, each with its state. The batch is complete when each call has a result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct OpenCalls(Vec<OpenCall>);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct OpenCall {
    call: ToolCall,
    /// The properties of the tool that the model saw.
    #[serde(default, skip_serializing_if = "is_unknown")]
    tool: ToolSnapshot,
    state: CallState,
    /// `true` if the call was returned for execution before.
    #[serde(default, skip_serializing_if = "Not::not")]
    was_returned: bool,
    /// `true` if the hooks have judged the current arguments.
    #[serde(default, skip_serializing_if = "Not::not")]
    is_checked: bool,
    /// The repairs that a check of the arguments made before the execution.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    repairs: Vec<Repair>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
enum CallState {
    /// The call is ready for execution. If the call was suspended before, `resumed` contains the
    /// pending state and the decision.
    Ready {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resumed: Option<ResumedCall>,
    },
    /// The driver is executing the call. `resumed` is kept, because the call needs it again if it
    /// is repeated after a crash.
    InProgress {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resumed: Option<ResumedCall>,
    },
    /// The call is suspended until a decision arrives.
    Waiting { pending: Pending },
    /// The call conflicts with an earlier call that is suspended. It becomes ready after the next
    /// decision. `resumed` is the decision about this call, if it was made first.
    Postponed {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resumed: Option<ResumedCall>,
    },
    /// The call gives the answer of the run, after all other calls of the batch have a result.
    Answer,
    /// The call has its result.
    Finished { result: Arc<ToolResult> },
}

impl OpenCalls {
    /// Creates a batch of calls that are ready for execution. `tools` has the properties of their
    /// tools, by name.
    pub(crate) fn new(calls: Vec<ToolCall>, tools: &BTreeMap<String, ToolSnapshot>) -> Self {
        let open = |call: ToolCall| OpenCall {
            tool: tools.get(&call.name).cloned().unwrap_or_default(),
            call,
            state: CallState::Ready { resumed: None },
            was_returned: false,
            is_checked: false,
            repairs: Vec::new(),
        };
        Self(calls.into_iter().map(open).collect())
    }

    /// Marks all ready calls as in progress, and returns them for execution, together with the
    /// calls that wait for a decision.
    pub(crate) fn take_ready(&mut self) -> CallBatch {
        if !self.0.iter().any(|open| matches!(open.state, CallState::Waiting { .. })) {
            self.resume_postponed();
        }
        let mut batch = CallBatch::default();
        for open in &mut self.0 {
            if let CallState::Waiting { pending } = &open.state {
                let mut call = open.call.clone();
                if let Some(approved) = &pending.approved {
                    call.arguments = approved.clone().into();
                }
                batch.waiting.push((batch.calls.len(), call));
            }
            if let Some(ready) = open.as_ready() {
                open.state = CallState::InProgress { resumed: ready.resumed.clone() };
                open.was_returned = true;
                batch.calls.push(ready);
            }
        }
        batch
    }

    /// Returns the ready calls.
    pub(crate) fn ready(&self) -> Vec<ReadyCall> {
        self.0.iter().filter_map(OpenCall::as_ready).collect()
    }

    /// Returns the number of calls to the tool named `tool` that were started earlier: calls with a
    /// [counted](is_counted) result, and calls that were suspended.
    pub(crate) fn count_started(&self, tool: &str) -> u32 {
        let started = self.0.iter().filter(|open| match &open.state {
            CallState::Ready { resumed }
            | CallState::InProgress { resumed }
            | CallState::Postponed { resumed } => resumed.is_some(),
            CallState::Waiting { .. } => true,
            CallState::Answer => false,
            CallState::Finished { result } => is_counted(result),
        });
        u32::try_from(started.filter(|open| open.call.name == tool).count()).unwrap_or(u32::MAX)
    }

    /// Marks the postponed calls as ready.
    fn resume_postponed(&mut self) {
        for open in &mut self.0 {
            if let CallState::Postponed { resumed } = &mut open.state {
                open.state = CallState::Ready { resumed: resumed.take() };
            }
        }
    }

    /// Returns `true` if at least one call is ready for execution.
    pub(crate) fn has_ready(&self) -> bool {
        self.0.iter().any(|open| matches!(open.state, CallState::Ready { .. }))
    }

    /// Returns the calls that the driver is executing.
    pub(crate) fn in_progress(&self) -> impl Iterator<Item = &ToolCall> {
        let in_progress = |open: &&OpenCall| matches!(open.state, CallState::InProgress { .. });
        self.0.iter().filter(in_progress).map(|open| &open.call)
    }

    /// Returns `true` if every call has its result.
    pub(crate) fn are_finished(&self) -> bool {
        self.0.iter().all(|open| matches!(open.state, CallState::Finished { .. }))
    }

    /// Returns the calls that wait for a decision.
    pub(crate) fn pending_calls(&self) -> Vec<PendingCall> {
        let pending = self.0.iter().filter_map(|open| match &open.state {
            CallState::Waiting { pending } => {
                Some(PendingCall { call: open.call.clone(), pending: pending.clone() })
            }
            _ => None,
        });
        pending.collect()
    }

    /// Returns the calls that wait for a decision and have none yet. A call that waits for nested
    /// calls is replaced by these calls.
    pub(crate) fn undecided_calls(&self) -> Vec<PendingCall> {
        let mut undecided = Vec::new();
        for OpenCall { call, state, .. } in &self.0 {
            let (pending, decision) = match state {
                CallState::Waiting { pending } => (pending, None),
                CallState::Ready { resumed: Some(resumed) }
                | CallState::Postponed { resumed: Some(resumed) } => {
                    (resumed.pending(), Some(resumed.decision()))
                }
                _ => continue,
            };
            let pending = PendingCall { call: call.clone(), pending: pending.clone() };
            let is_open = |it: &&PendingCall| decision.is_none_or(|decision| !decides(decision, &it.call.id));
            undecided.extend(pending.innermost_calls().into_iter().filter(is_open).cloned());
        }
        undecided
    }

    /// Returns the first result with a [fatal](FailureKind::Fatal) failure, which ends the run.
    /// `None` if no call failed fatally.
    pub(crate) fn fatal_result(&self) -> Option<&ToolResult> {
        let is_fatal =
            |result: &&ToolResult| result.failure().is_some_and(|failure| failure.kind == FailureKind::Fatal);
        self.results().map(|result| &**result).find(is_fatal)
    }

    /// Returns the call in progress with this `id`, and the properties of its tool. Fails if no
    /// call in progress has this id.
    pub(crate) fn find_in_progress(&self, id: &str) -> Result<(&ToolCall, &ToolSnapshot), RunError> {
        let is_open =
            |open: &&OpenCall| matches!(open.state, CallState::InProgress { .. }) && open.call.id == id;
        let open = self.0.iter().find(is_open).ok_or_else(|| RunError::NotInProgress(id.to_owned()))?;
        Ok((&open.call, &open.tool))
    }

    /// Returns the ids of all calls of the batch.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|open| open.call.id.as_str())
    }

    /// Returns the calls without a result: ready, in progress, waiting or postponed.
    pub(crate) fn unfinished(&self) -> impl Iterator<Item = &ToolCall> {
        let unfinished = |open: &&OpenCall| !matches!(open.state, CallState::Finished { .. });
        self.0.iter().filter(unfinished).map(|open| &open.call)
    }

    /// Returns the names of the calls to tools with a maximum number of calls, without refused
    /// calls.
    pub(crate) fn limited_names(&self) -> impl Iterator<Item = &str> {
        let counts = |open: &&OpenCall| match &open.state {
            CallState::Finished { result } => is_counted(result),
            _ => true,
        };
        let limited = self.0.iter().filter(|open| open.tool.max_calls.is_some()).filter(counts);
        limited.map(|open| open.call.name.as_str())
    }

    /// Returns the results of the finished calls to tools with a maximum number of calls.
    pub(crate) fn limited_results(&self) -> impl Iterator<Item = &ToolResult> {
        self.0.iter().filter(|open| open.tool.max_calls.is_some()).filter_map(|open| match &open.state {
            CallState::Finished { result } => Some(&**result),
            _ => None,
        })
    }

    /// Returns the results of the calls that are finished, in call order.
    pub(crate) fn results(&self) -> impl Iterator<Item = &Arc<ToolResult>> {
        self.0.iter().filter_map(|open| match &open.state {
            CallState::Finished { result } => Some(result),
            _ => None,
        })
    }

    /// Returns the index in the batch of the first successful call for whose result `is_wanted`
    /// returns `true`. `None` if there is no such call.
    pub(crate) fn position_of_success(&self, is_wanted: impl Fn(&ToolResult) -> bool) -> Option<usize> {
        self.0.iter().position(|open| match &open.state {
            CallState::Finished { result } => result.is_success() && is_wanted(result),
            _ => false,
        })
    }

    /// Marks the call at `index` as the answer of the run. It is not executed.
    pub(crate) fn set_answer(&mut self, index: usize) {
        if let Some(open) = self.0.get_mut(index) {
            open.state = CallState::Answer;
        }
    }

    /// Stores the result of the call at `index`, which is not executed.
    pub(crate) fn finish_unexecuted(
        &mut self,
        index: usize,
        result: impl FnOnce(&ToolCall) -> Arc<ToolResult>,
    ) {
        if let Some(open) = self.0.get_mut(index) {
            open.state = CallState::Finished { result: result(&open.call) };
        }
    }

    /// Stores a successful result for the call that gives the answer of the run, if any.
    pub(crate) fn accept_answer(&mut self, now: Timestamp) {
        for open in self.0.iter_mut().filter(|open| matches!(open.state, CallState::Answer)) {
            let done = Outcome::Done("the answer was received".into());
            open.state = CallState::Finished { result: unexecuted_result(&open.call, done, now) };
        }
    }

    /// Stores the result of the call in progress with this `id`, and returns the stored result,
    /// which also lists the repairs before the execution. Fails if no call in progress has this id.
    pub(crate) fn finish(&mut self, id: &str, mut result: ToolResult) -> Result<&Arc<ToolResult>, RunError> {
        let open = self.find_in_progress_mut(id)?;
        result.repairs.splice(0..0, mem::take(&mut open.repairs));
        open.state = CallState::Finished { result: Arc::new(result) };
        match &open.state {
            CallState::Finished { result } => Ok(result),
            _ => Err(RunError::NotInProgress(id.to_owned())),
        }
    }

    /// Marks the ready call with this `id` as judged by the hooks. If there are `new` arguments,
    /// they replace the arguments of the call, or the arguments in the decision about a resumed
    /// call. Fails if no ready call has this id.
    pub(crate) fn check(&mut self, id: &str, new: Option<NewArguments>) -> Result<(), RunError> {
        let open = self.find_ready_mut(id)?;
        if let Some(NewArguments { arguments, repairs }) = new {
            match &mut open.state {
                CallState::Ready { resumed: Some(resumed) } => {
                    let decision = Decision::approved_with_arguments(arguments);
                    let wrong = |source| RunError::WrongDecision { id: id.to_owned(), source };
                    *resumed = resumed.pending().clone().resume(decision).map_err(wrong)?;
                }
                _ => {
                    let (id, name) = (open.call.id.as_str(), open.call.name.as_str());
                    open.call = ToolCall::new(id, name, arguments);
                    open.repairs = repairs;
                }
            }
        }
        open.is_checked = true;
        Ok(())
    }

    /// Stores the result of the ready call with this `id`, which is not executed. Returns the call
    /// and its result. Fails if no ready call has this id.
    pub(crate) fn refuse(
        &mut self,
        id: &str,
        result: impl FnOnce(&ToolCall) -> Arc<ToolResult>,
    ) -> Result<(ToolCall, Arc<ToolResult>), RunError> {
        let open = self.find_ready_mut(id)?;
        let result = result(&open.call);
        open.state = CallState::Finished { result: Arc::clone(&result) };
        Ok((open.call.clone(), result))
    }

    /// Suspends the call in progress with this `id` until it gets a decision, or until an earlier
    /// call gets one if it is postponed. Fails if no call in progress has this id.
    pub(crate) fn suspend(&mut self, id: &str, pending: Pending) -> Result<(), RunError> {
        let open = self.find_in_progress_mut(id)?;
        open.state = match (&pending.kind, &mut open.state) {
            (PendingKind::Postponed, CallState::InProgress { resumed }) => {
                CallState::Postponed { resumed: resumed.take() }
            }
            _ => CallState::Waiting { pending },
        };
        Ok(())
    }

    fn find_ready_mut(&mut self, id: &str) -> Result<&mut OpenCall, RunError> {
        let is_ready =
            |open: &&mut OpenCall| matches!(open.state, CallState::Ready { .. }) && open.call.id == id;
        self.0.iter_mut().find(is_ready).ok_or_else(|| RunError::NotReady(id.to_owned()))
    }

    fn find_in_progress_mut(&mut self, id: &str) -> Result<&mut OpenCall, RunError> {
        let in_progress = |open: &&mut OpenCall| matches!(open.state, CallState::InProgress { .. });
        let mut open = self.0.iter_mut().filter(in_progress);
        open.find(|open| open.call.id == id).ok_or_else(|| RunError::NotInProgress(id.to_owned()))
    }

    /// Stores `decision` for the waiting call with this `id`, and marks the call and all postponed
    /// calls as ready.
    ///
    /// `id` can also identify a nested call, for example in the run of an agent used as a tool. The
    /// decision is then stored with the outer call.
    ///
    /// Fails if no call with this id waits for a decision, or if the decision does not fit the
    /// call.
    pub(crate) fn decide(&mut self, id: &str, decision: Decision) -> Result<(), RunError> {
        let pending = self.pending_calls();
        let leaves = pending.iter().flat_map(PendingCall::innermost_calls).map(|leaf| leaf.call.id.as_str());
        let waiting = leaves.collect::<Vec<_>>().join(", ");
        let not_waiting = || RunError::CallNotWaiting { id: id.to_owned(), waiting };
        let open = self.0.iter_mut().find(|open| open.contains_call(id)).ok_or_else(not_waiting.clone())?;
        let inside = |mut decisions: Decisions, decision| {
            decisions.insert(id.to_owned(), decision);
            Decision::Nested { decisions }
        };
        let (pending, decision) = match &open.state {
            CallState::Waiting { pending } if open.call.id == id => (pending, decision),
            CallState::Waiting { pending } => (pending, inside(Decisions::new(), decision)),
            // Another nested call already has a decision. `decision` is added to the same map.
            CallState::Ready { resumed: Some(resumed) } | CallState::Postponed { resumed: Some(resumed) } => {
                match resumed.decision() {
                    Decision::Nested { decisions } if open.call.id != id && !decisions.contains_key(id) => {
                        (resumed.pending(), inside(decisions.clone(), decision))
                    }
                    _ => return Err(not_waiting()),
                }
            }
            _ => return Err(not_waiting()),
        };
        let wrong = |source| RunError::WrongDecision { id: id.to_owned(), source };
        let resumed = pending.clone().resume(decision).map_err(wrong)?;
        open.is_checked &= resumed.changed_arguments().is_none();
        open.state = CallState::Ready { resumed: Some(resumed) };
        self.resume_postponed();
        Ok(())
    }

    /// Recovers the calls that were in progress when the driver crashed or was dropped. Calls to
    /// idempotent tools become ready again. All other calls get an
    /// [unconfirmed](FailureKind::Unconfirmed) failure. Returns these failures.
    pub(crate) fn recover(&mut self, now: Timestamp) -> Vec<Arc<ToolResult>> {
        let mut unconfirmed = Vec::new();
        for open in &mut self.0 {
            let CallState::InProgress { resumed } = &mut open.state else { continue };
            open.state = if open.tool.idempotent {
                CallState::Ready { resumed: resumed.take() }
            } else {
                let message =
                    "unconfirmed, it may or may not have happened: the process that made the call is gone";
                let result = failure_result(&open.call, FailureKind::Unconfirmed, message, now);
                unconfirmed.push(Arc::clone(&result));
                CallState::Finished { result }
            };
        }
        unconfirmed
    }

    /// Finishes all calls in progress with a [timeout](FailureKind::TimedOut) failure.
    pub(crate) fn time_out(&mut self, now: Timestamp) {
        for open in self.0.iter_mut().filter(|open| matches!(open.state, CallState::InProgress { .. })) {
            let message = "timed out: the time of the run is up; it may or may not have happened";
            let result = failure_result(&open.call, FailureKind::TimedOut, message, now);
            open.state = CallState::Finished { result };
        }
    }

    /// Closes the batch, and returns one result per call, in call order. The result of an
    /// unfinished call is a failure with the kind `kind` and the message `why`.
    pub(crate) fn into_results(
        self,
        kind: FailureKind,
        why: &str,
        now: Timestamp,
    ) -> impl Iterator<Item = Arc<ToolResult>> {
        self.0.into_iter().map(move |OpenCall { call, state, .. }| match state {
            CallState::Finished { result } => result,
            _ => failure_result(&call, kind, why, now),
        })
    }
}

impl OpenCall {
    /// Returns the call for execution. `None` if it is not ready.
    fn as_ready(&self) -> Option<ReadyCall> {
        let CallState::Ready { resumed } = &self.state else { return None };
        Some(ReadyCall {
            call: self.call.clone(),
            resumed: resumed.clone(),
            failed_attempts: FailedAttempts::default(),
            denied: None,
            is_new: !self.was_returned,
            is_checked: self.is_checked,
            tool: self.tool.clone(),
        })
    }

    /// Returns `true` if `id` is the id of this call or of a call nested in it, for example in the
    /// run of an agent used as a tool.
    fn contains_call(&self, id: &str) -> bool {
        let pending = match &self.state {
            CallState::Waiting { pending } => Some(pending),
            CallState::Ready { resumed: Some(resumed) } | CallState::Postponed { resumed: Some(resumed) } => {
                Some(resumed.pending())
            }
            _ => None,
        };
        let inner = pending.map(|pending| &pending.kind);
        self.call.id == id
            || matches!(inner, Some(PendingKind::Nested { pending }) if pending.iter().any(|inner| inner.contains_call(id)))
    }
}

/// Returns `false` for the result of a call that was denied, had invalid arguments, or named an
/// unknown tool.
pub(crate) fn is_counted(result: &ToolResult) -> bool {
    !result.failure().is_some_and(|failure| {
        matches!(failure.kind, FailureKind::Denied | FailureKind::InvalidArguments | FailureKind::NotFound)
    })
}

/// Returns `true` if `decision`, the decision about a call, also decides about its nested call with
/// this `id`.
fn decides(decision: &Decision, id: &str) -> bool {
    match decision {
        Decision::Nested { decisions } => {
            let is_inside = |it: &Decision| matches!(it, Decision::Nested { .. }) && decides(it, id);
            decisions.contains_key(id) || decisions.values().any(is_inside)
        }
        _ => true,
    }
}

/// Creates the result of a call that was not executed or has an unknown outcome: a failure with the
/// kind `kind` and the message `why`.
pub(crate) fn failure_result(
    call: &ToolCall,
    kind: FailureKind,
    why: &str,
    now: Timestamp,
) -> Arc<ToolResult> {
    unexecuted_result(call, Outcome::Failed(Failure::new(kind, why)), now)
}

fn unexecuted_result(call: &ToolCall, outcome: Outcome, now: Timestamp) -> Arc<ToolResult> {
    Arc::new(ToolResult {
        call_id: call.id.clone(),
        name: call.name.clone(),
        outcome,
        warnings: Vec::new(),
        repairs: Vec::new(),
        started_at: now,
        duration: std::time::Duration::ZERO,
    })
}

fn is_unknown(tool: &ToolSnapshot) -> bool {
    *tool == ToolSnapshot::default()
}
