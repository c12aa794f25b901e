//! Calls added to a run by the host program.

use std::{mem, sync::Arc};

use haft_core::{ToolCall, ToolResult, agent::AgentErrorKind, call::FailureKind, limits};

use super::{CallSelection, Run, RunError, RunState, Step, message_metadata};
use crate::open_calls::{OpenCalls, failure_result};

impl Run {
    /// Adds calls that are not part of a reply, for example calls that a tool pushes to a
    /// [`QueueHandle`](crate::QueueHandle).
    ///
    /// The calls are returned as [`Effect::Call`](super::Effect::Call) at the next step boundary:
    /// after the calls of the current reply, and before the next request. They count towards the
    /// limits of the run. Each call gets exactly one result, even if the run is cancelled. An added
    /// call to a tool in [`stop_on`](super::RunConfig::stop_on) does not end the run.
    ///
    /// The results of a batch are recorded in one message of the transcript, which
    /// [`call_results`](super::call_results) reads. Without a [`Resolver`](super::Resolver), this
    /// message is sent to the model.
    ///
    /// If a tool adds calls, the driver must add them before it reports the result of the tool,
    /// because a run that is saved after the report and before the addition loses the calls.
    ///
    /// # Errors
    ///
    /// Fails if the run already has its answer or was cancelled, if the total number of added calls
    /// would exceed [`QUEUE_CALLS_TOTAL`](limits::QUEUE_CALLS_TOTAL), or if an id is empty or
    /// already used. Fails with [`RunError::ReplyInProgress`] between
    /// [`Effect::Chat`](super::Effect::Chat) and the call to [`next`](Self::next) that applies the
    /// reply, and during a review or the validation of an output, because the run may then end
    /// without another step boundary. After an error, none of the calls is added.
    pub fn add_calls(&mut self, calls: impl IntoIterator<Item = ToolCall>) -> Result<(), RunError> {
        let calls: Vec<_> = calls.into_iter().collect();
        if calls.is_empty() {
            return Ok(());
        }
        match self.state() {
            RunState::Finishing | RunState::Finished | RunState::Cancelled => return Err(RunError::Ended),
            state @ (RunState::AwaitingReply
            | RunState::ReplyReceived
            | RunState::ReviewingCalls
            | RunState::CheckingOutput) => {
                return Err(RunError::ReplyInProgress(state));
            }
            _ => {}
        }
        if calls.len() > self.added_calls_left() {
            return Err(RunError::TooManyCalls(limits::QUEUE_CALLS_TOTAL));
        }
        if let Some(id) = self.ids.insert_all(&calls) {
            return Err(RunError::InvalidCallId(id));
        }
        self.head.added_total += calls.len();
        self.head.added_calls.extend(calls);
        Ok(())
    }

    /// Returns the number of calls that can still be [added](Self::add_calls) to this run.
    pub fn added_calls_left(&self) -> usize {
        limits::QUEUE_CALLS_TOTAL.saturating_sub(self.head.added_total)
    }

    /// Starts a batch of the added calls that can be executed now, and records failures for the
    /// calls that can never be executed. Returns `false` if the run has no added calls. Returns
    /// `true` if the run was changed and must be advanced again. Fails if a limit forbids the calls
    /// and ends the run.
    pub(super) fn start_added_calls(&mut self, step: &Step<'_>) -> Result<bool, AgentErrorKind> {
        if self.head.added_calls.is_empty() {
            return Ok(false);
        }
        let waiting = mem::take(&mut self.head.added_calls);
        let selection = match step.resolver {
            Some(resolver) => resolver.select(&self.transcript, waiting),
            None => CallSelection { ready: waiting, ..CallSelection::default() },
        };
        let CallSelection { ready, mut waiting, mut failed } = selection;
        if ready.is_empty() && failed.is_empty() {
            let why = "not run: its references cannot be resolved";
            failed.extend(mem::take(&mut waiting).into_iter().map(|call| (call, why.to_owned())));
        }
        self.head.added_calls = waiting;
        let now = self.head.now();
        let fail = |(call, why): (ToolCall, String)| failure_result(&call, FailureKind::Failed, &why, now);
        self.record_added_results(failed.into_iter().map(fail).collect());
        if ready.is_empty() {
            return Ok(true);
        }
        let purpose = self.head.state.purpose();
        let limit = self.count_calls(purpose, ready.len(), step.budget);
        self.head.state.start_added_calls(OpenCalls::new(ready));
        match limit {
            Some(limit) => self.deny_calls(limit).map(|()| true),
            None => Ok(true),
        }
    }

    /// Records a failure with the kind `kind` and the message `why` for each added call that was
    /// not returned for execution yet.
    pub(super) fn close_added_calls(&mut self, kind: FailureKind, why: &str) {
        let open = OpenCalls::new(mem::take(&mut self.head.added_calls));
        let results = open.into_results(kind, why, self.head.now()).collect();
        self.record_added_results(results);
    }

    /// Appends `results`, the results of added calls, to the transcript as one message. Does
    /// nothing if `results` is empty.
    pub(super) fn record_added_results(&mut self, results: Vec<Arc<ToolResult>>) {
        if !results.is_empty() {
            self.push(message_metadata::added_results_message(&results));
        }
    }
}
