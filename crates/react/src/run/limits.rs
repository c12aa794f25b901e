//! The limits and the clock of a run.

use std::{borrow::Cow, time::Duration};

use haft_core::{
    Timestamp,
    agent::{AgentErrorKind, Limit, RunLimits},
    model::ChatSettings,
    usage::Usage,
};
use serde::{Deserialize, Serialize};

use super::{
    LimitAction, Run, RunData, RunState,
    head::is_false,
    message_metadata,
    state::{RequestPurpose, State},
};

/// The next state of a run and the result for its driver. The result is an error if the run stops
/// in this state.
pub(super) type Transition = (State, Result<(), AgentErrorKind>);

/// A stopwatch for the time limit of a run, based on [`Step::now`](super::Step::now). It is stopped
/// while the run has no driver or is suspended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct RunClock {
    /// The [`now`](super::Step::now) of the last step.
    pub(super) now: Timestamp,
    elapsed_ms: u64,
    #[serde(default, skip_serializing_if = "is_false")]
    is_running: bool,
}

impl RunClock {
    pub(super) fn stop(&mut self) {
        self.is_running = false;
    }

    fn tick(&mut self, now: Timestamp) {
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
    /// Returns the limit that forbids a further model request, or `None` if a request is allowed.
    pub(super) fn reached_limit(&self) -> Option<Limit> {
        let RunData { config, usage, clock, nested_limit, .. } = &self.head;
        let limits = &config.limits;
        let time = || limits.time.filter(|time| clock.elapsed() >= *time).map(Limit::Time);
        reached_usage_limit(limits, self.counted_requests(), usage).or(*nested_limit).or_else(time)
    }

    /// Returns the limit that forbids the next model request, because of the resources of the run
    /// or the size of the request. `None` if the request is allowed.
    pub(super) fn next_request_limit(&self) -> Option<Limit> {
        self.reached_limit().or_else(|| self.exceeded_request_limit())
    }

    /// Returns `settings` with [`RunLimits::request_output_tokens`] as the upper bound of
    /// [`ChatSettings::max_tokens`].
    pub(super) fn limited_settings<'a>(&self, settings: &'a ChatSettings) -> Cow<'a, ChatSettings> {
        match self.head.config.limits.request_output_tokens {
            Some(limit) if settings.max_tokens.is_none_or(|max| max > limit) => {
                Cow::Owned(ChatSettings { max_tokens: Some(limit), ..settings.clone() })
            }
            _ => Cow::Borrowed(settings),
        }
    }

    /// Returns the number of requests that count towards the request limit: the requests of this
    /// run, its requests for summaries, and the requests of nested runs.
    pub(super) fn counted_requests(&self) -> u32 {
        let RunData { requests, context_range, nested_requests, .. } = &self.head;
        requests.saturating_add(context_range.summaries).saturating_add(*nested_requests)
    }

    /// Returns the remaining time of the run. `None` if the run has no time limit. Also `None`
    /// during the final request after a limit, because the time limit does not apply to this
    /// request.
    pub fn time_left(&self) -> Option<Duration> {
        let is_last = self.head.state.purpose().limit().is_some();
        let limit = self.head.config.limits.time.filter(|_| !is_last)?;
        Some(limit.saturating_sub(self.head.clock.elapsed()))
    }

    /// Returns the time limit if it is reached. `None` if time is left, or if no time limit
    /// applies.
    pub(super) fn reached_time_limit(&self) -> Option<Limit> {
        self.time_left().filter(Duration::is_zero)?;
        self.head.config.limits.time.map(Limit::Time)
    }

    /// Reports that the [remaining time](Self::time_left) of the run ran out before the driver had
    /// performed the last effect.
    ///
    /// A request in flight is abandoned. Calls in progress get a
    /// [timeout](haft_core::call::FailureKind::TimedOut) failure. Before its next model request,
    /// the run applies [`RunConfig::limit_action`](super::RunConfig::limit_action).
    pub fn on_time_limit(&mut self) {
        if let Some(limit) = self.head.config.limits.time {
            self.head.clock.expire(limit);
        }
        let now = self.head.now();
        match self.state() {
            RunState::AwaitingReply => {
                self.head.usage += Usage::failed_request();
                self.head.state.request_again();
            }
            RunState::Compacting => self.finish_compaction(Usage::failed_request()),
            _ => {
                if let Some(batch) = self.head.state.batch_mut() {
                    batch.calls.time_out(now);
                }
            }
        }
    }

    /// Adds `usage` to the usage of the run. Call this method for additional usage, such as the
    /// usage of an agent called as a tool. Its requests count towards the limits. The run counts
    /// the usage of its own model requests itself.
    pub fn on_usage(&mut self, usage: Usage) {
        self.head.usage += usage;
        let requests = u32::try_from(usage.requests).unwrap_or(u32::MAX);
        self.head.nested_requests = self.head.nested_requests.saturating_add(requests);
    }

    /// Sets the current time to `now`. If the clock is running, adds the time since the last step
    /// to the elapsed time. If the clock is stopped, starts the clock.
    pub(super) fn tick(&mut self, now: Timestamp) {
        self.head.clock.tick(now);
    }

    /// Applies [`RunConfig::limit_action`](super::RunConfig::limit_action) to a run that reached
    /// `limit`: the run fails or makes a final request. If the request with this `purpose` is
    /// already the final request, the run always fails.
    pub(super) fn apply_limit_action(&mut self, purpose: RequestPurpose, limit: Limit) -> Transition {
        match (self.head.config.limit_action, purpose.limit()) {
            (LimitAction::Fail, _) => {
                (State::ReadyToRequest { purpose }, Err(AgentErrorKind::LimitReached(limit)))
            }
            (LimitAction::Answer, Some(limit)) => {
                (State::LimitReached { purpose }, Err(AgentErrorKind::LimitReached(limit)))
            }
            (LimitAction::Answer, None) => {
                self.push(message_metadata::hint_message(format!(
                    "{limit}. No more calls can be made: answer now with what you have."
                )));
                (State::ReadyToRequest { purpose: purpose.with_limit(limit) }, Ok(()))
            }
        }
    }

    /// Counts a rejected reply, and returns the transition that repeats the request. The transition
    /// contains `error` if too many replies in a row were rejected. A final request after a limit
    /// is not repeated: the run fails.
    pub(super) fn retry_rejected_reply(
        &mut self,
        purpose: RequestPurpose,
        error: impl FnOnce() -> AgentErrorKind,
    ) -> Transition {
        if let Some(limit) = purpose.limit() {
            return self.apply_limit_action(purpose, limit);
        }
        self.head.rejected_replies += 1;
        let is_too_many = self.head.rejected_replies > self.head.config.max_output_retries;
        (State::ReadyToRequest { purpose }, if is_too_many { Err(error()) } else { Ok(()) })
    }

    /// Returns the limit that forbids new calls, or `None` if new calls are allowed. `total` is the
    /// number of all calls of the run, including the new calls.
    pub(super) fn reached_call_limit(&self, purpose: RequestPurpose, total: u32) -> Option<Limit> {
        let RunData { config, repeated_calls, .. } = &self.head;
        let repeats = config.max_repeated_calls.filter(|limit| repeated_calls > limit);
        let too_many = config.limits.tool_calls.filter(|limit| total > *limit);
        purpose.limit().or(repeats.map(Limit::RepeatedCalls)).or(too_many.map(Limit::ToolCalls))
    }
}

/// Returns the limit on requests, tokens or cost that forbids a further model request. `None` if a
/// request is allowed.
pub(super) fn reached_usage_limit(limits: &RunLimits, requests: u32, usage: &Usage) -> Option<Limit> {
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
