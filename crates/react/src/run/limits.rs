//! The limits, the counters and the clock of a run.

use std::time::Duration;

use haft_core::{
    Timestamp,
    agent::{AgentErrorKind, Limit, RunLimits},
    call::FailureKind,
    model::ModelError,
    usage::Usage,
};
use serde::{Deserialize, Serialize};

use super::{
    LimitAction, NestedUsage, Run,
    data::Counts,
    is_false,
    state::{Batch, Candidate, End, State, Transition},
};
use crate::transcript::marks::hint_message;

/// A stopwatch for the time limit of a run. It is stopped while the run has no driver or is
/// suspended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct RunClock {
    /// The last time that the driver reported.
    pub(super) now: Timestamp,
    elapsed_ms: u64,
    #[serde(default, skip_serializing_if = "is_false")]
    is_running: bool,
}

impl RunClock {
    pub(super) fn stop(&mut self) {
        self.is_running = false;
    }

    /// Sets the current time to `now`. If the clock is running, adds the time since the last call
    /// to the elapsed time. If the clock is stopped, starts it.
    pub(super) fn tick(&mut self, now: Timestamp) {
        let passed = now.unix_millis().saturating_sub(self.now.unix_millis());
        if self.is_running {
            self.elapsed_ms = self.elapsed_ms.saturating_add(u64::try_from(passed).unwrap_or(0));
        }
        (self.now, self.is_running) = (now, true);
    }

    fn elapsed(&self) -> Duration {
        Duration::from_millis(self.elapsed_ms)
    }

    /// Sets the elapsed time to at least `limit`. The driver's timer may fire when the clock of the
    /// run still shows slightly less than `limit`.
    fn expire(&mut self, limit: Duration) {
        let limit = u64::try_from(limit.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        self.elapsed_ms = self.elapsed_ms.max(limit);
    }
}

impl Run {
    /// Returns the limit that forbids a further model request. `None` if a request is allowed.
    pub(super) fn reached_limit(&self) -> Option<Limit> {
        let (limits, Counts { usage, nested_limit, .. }) = (&self.data.config.limits, &self.data.counts);
        let time = || limits.time.filter(|time| self.data.clock.elapsed() >= *time).map(Limit::Time);
        reached_usage_limit(limits, self.counted_requests(), usage).or(*nested_limit).or_else(time)
    }

    /// Returns the limit that forbids the next model request, because of the resources of the run
    /// or the size of the request. `None` if the request is allowed.
    pub(super) fn next_request_limit(&self) -> Option<Limit> {
        self.reached_limit().or_else(|| self.exceeded_request_limit())
    }

    /// Returns the number of requests that count towards the request limit: the requests of this
    /// run, its requests for summaries, and the requests of nested runs.
    pub(crate) fn counted_requests(&self) -> u32 {
        let Counts { requests, summaries, nested_requests, .. } = self.data.counts;
        requests.saturating_add(summaries).saturating_add(nested_requests)
    }

    /// Returns the number of tool calls, with those of nested runs.
    pub(crate) fn counted_calls(&self) -> u32 {
        self.data.counts.tool_calls
    }

    /// Returns the remaining time of the run. `None` if the run has no time limit. Also `None`
    /// during the final request after a limit, because the time limit does not apply to this
    /// request.
    pub fn time_left(&self) -> Option<Duration> {
        let is_last = self.data.purpose.limit().is_some();
        let limit = self.data.config.limits.time.filter(|_| !is_last)?;
        Some(limit.saturating_sub(self.data.clock.elapsed()))
    }

    /// Returns the time limit if it is reached. `None` if time is left, or if no time limit
    /// applies.
    pub(super) fn reached_time_limit(&self) -> Option<Limit> {
        self.time_left().filter(Duration::is_zero)?;
        self.data.config.limits.time.map(Limit::Time)
    }

    /// Applies [`RunConfig::limit_action`](super::RunConfig::limit_action) to a run at a step
    /// boundary that reached `limit`: the run fails or makes a final request. A run whose next
    /// request is already the final request fails.
    pub(super) fn reach_limit(&mut self, limit: Limit) -> Transition {
        match (self.data.config.limit_action, self.data.purpose.limit()) {
            (LimitAction::Fail, _) => State::Ready.fail(AgentErrorKind::LimitReached(limit)),
            (LimitAction::Answer, Some(limit)) => {
                State::Ended(End::LimitReached).fail(AgentErrorKind::LimitReached(limit))
            }
            (LimitAction::Answer, None) => {
                self.push(hint_message(format!(
                    "{limit}. No more calls can be made: answer now with what you have."
                )));
                self.data.purpose = self.data.purpose.with_limit(limit);
                State::Ready.go()
            }
        }
    }

    /// Counts a rejected reply. Returns `Some` if the run fails: with `error`, because too many
    /// replies in a row were rejected, or with the limit whose final request the reply belongs to.
    pub(super) fn count_rejection(&mut self, error: impl FnOnce() -> AgentErrorKind) -> Option<Transition> {
        if let Some(limit) = self.data.purpose.limit() {
            return Some(self.reach_limit(limit));
        }
        let counts = &mut self.data.counts;
        counts.rejected_replies += 1;
        (counts.rejected_replies > self.data.config.max_output_retries).then(|| State::Ready.fail(error()))
    }

    /// Repeats the request after a broken reply, unless too many replies in a row were rejected.
    pub(super) fn reject_broken_reply(&mut self, error: ModelError) -> Transition {
        let problem = error.to_string();
        if let Some(failure) = self.count_rejection(|| error.into()) {
            return failure;
        }
        // `problem` is not logged, since it may contain text from the reply.
        tracing::warn!("a reply is empty, truncated or invalid: the request is repeated");
        self.emit_rejection(problem);
        State::Ready.go()
    }

    /// Adds `calls`, the number of new calls, to the call count of the run. If a limit forbids the
    /// calls, returns this limit and adds nothing.
    pub(super) fn count_calls(&mut self, calls: usize) -> Option<Limit> {
        let total = self.data.counts.tool_calls.saturating_add(u32::try_from(calls).unwrap_or(u32::MAX));
        let (config, counts) = (&self.data.config, &self.data.counts);
        let repeats = config.max_repeated_calls.filter(|limit| counts.repeated_calls > *limit);
        let too_many = config.limits.tool_calls.filter(|limit| total > *limit);
        let limit = self.data.purpose.limit();
        let limit = limit.or(repeats.map(Limit::RepeatedCalls)).or(too_many.map(Limit::ToolCalls));
        if limit.is_none() {
            self.data.counts.tool_calls = total;
        }
        limit
    }

    /// Adds the use of calls by nested runs.
    pub(super) fn count_nested(&mut self, nested: NestedUsage) {
        let NestedUsage { usage, requests, calls, limited_calls, limit } = nested;
        let counts = &mut self.data.counts;
        counts.usage += usage;
        let reported = u32::try_from(usage.requests).unwrap_or(u32::MAX);
        counts.nested_requests = counts.nested_requests.saturating_add(reported).saturating_add(requests);
        counts.tool_calls = counts.tool_calls.saturating_add(calls);
        counts.nested_limit = counts.nested_limit.or(limit);
        for (tool, calls) in limited_calls {
            *counts.limited_calls.entry(tool).or_default() += calls;
        }
    }

    /// Any state: abandons the current effect, because `limit` was reached while it was performed.
    /// Calls in progress get a [timeout](FailureKind::TimedOut) failure if the time is up. Calls
    /// that an enclosing run forbids are denied. A request that it forbids ends the run.
    pub(super) fn abandon_effect(&mut self, state: State, limit: Limit) -> Transition {
        let is_time = matches!(limit, Limit::Time(_));
        if let (true, Some(time)) = (is_time, self.data.config.limits.time) {
            self.data.clock.expire(time);
        }
        match state {
            State::AwaitingReply(request) => self.abandon_request(&request),
            State::Compacting { is_requested: true, .. } => {
                self.data.counts.usage += Usage::failed_request();
            }
            State::Calling(mut batch) if is_time => {
                batch.calls.time_out(self.data.clock.now);
                return State::Calling(batch).go();
            }
            State::Calling(batch) => {
                let denied = u32::try_from(batch.calls.in_progress().count()).unwrap_or(u32::MAX);
                self.data.counts.tool_calls = self.data.counts.tool_calls.saturating_sub(denied);
                return self.deny_calls(batch, limit);
            }
            State::Checking(Candidate::Calls(batch)) => return State::Calling(batch).go(),
            State::Checking(Candidate::Results(_) | Candidate::Answer(_))
            | State::Suspended(_)
            | State::HandingOff(_)
            | State::Ended(_) => return state.go(),
            State::Ready
            | State::Preparing { .. }
            | State::Compacting { .. }
            | State::Checking(Candidate::Input { .. }) => {}
        }
        // The time is checked again at the step boundary. The limit of an enclosing run is not known
        // there.
        if is_time { State::Ready.go() } else { State::Ready.fail(AgentErrorKind::LimitReached(limit)) }
    }

    /// Closes each open call of `batch` with a failure whose message contains `limit`, then applies
    /// [`RunConfig::limit_action`](super::RunConfig::limit_action).
    pub(super) fn deny_calls(&mut self, mut batch: Batch, limit: Limit) -> Transition {
        batch.calls.accept_answer(self.data.clock.now);
        match self.close_calls(batch, FailureKind::Denied, &format!("not run: {limit}")) {
            State::Ready => self.reach_limit(limit),
            // A stop tool has succeeded, or an answer was given beside the calls.
            state => state.go(),
        }
    }
}

/// Returns the limit on requests, tokens or cost that forbids a further model request. `None` if a
/// request is allowed.
pub(crate) fn reached_usage_limit(limits: &RunLimits, requests: u32, usage: &Usage) -> Option<Limit> {
    let RunLimits { input_tokens, output_tokens, total_tokens, cost, .. } = *limits;
    let tokens = |limit: Option<u64>, used: u64| limit.filter(|limit| used >= *limit);
    let reached = [
        limits.requests.filter(|limit| requests >= *limit).map(Limit::Requests),
        tokens(total_tokens, usage.total_tokens()).map(Limit::TotalTokens),
        tokens(input_tokens, usage.input_tokens).map(Limit::InputTokens),
        tokens(output_tokens, usage.output_tokens).map(Limit::OutputTokens),
        cost.filter(|limit| usage.cost >= *limit).map(Limit::Cost),
        cost.filter(|_| !usage.is_priced()).map(|_| Limit::UnknownCost),
    ];
    reached.into_iter().flatten().next()
}
