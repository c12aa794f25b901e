//! Limits, and the time of a run.

use std::time::Duration;

use haft_core::{
    Timestamp,
    agent::{AgentErrorKind, Limit, RunLimits},
    usage::Usage,
};
use serde::{Deserialize, Serialize};

use super::{
    AtLimit, Head, Run, RunState,
    head::is_false,
    marks,
    state::{Purpose, State},
};

/// The state to enter, and the error that ends the run for its driver.
pub(super) type Transition = (State, Result<(), AgentErrorKind>);

/// The clock of a run. It stops while the run has no driver or is suspended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct RunClock {
    /// The time of the last step.
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

    fn expire(&mut self, limit: Duration) {
        let limit = u64::try_from(limit.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        self.elapsed_ms = self.elapsed_ms.max(limit);
    }
}

impl Run {
    /// Returns the limit that allows no further request, if any.
    pub(super) fn exhausted(&self) -> Option<Limit> {
        let Head { config, requests, usage, window, clock, .. } = &self.head;
        let RunLimits { input_tokens, output_tokens, total_tokens, cost, time, .. } = config.limits;
        let requests = requests.saturating_add(window.summaries);
        let tokens = |limit: Option<u64>, used: u64| limit.filter(|limit| used >= *limit);
        let reached = [
            config.limits.requests.filter(|limit| requests >= *limit).map(Limit::Requests),
            tokens(total_tokens, usage.total_tokens()).map(Limit::TotalTokens),
            tokens(input_tokens, usage.input_tokens).map(Limit::InputTokens),
            tokens(output_tokens, usage.output_tokens).map(Limit::OutputTokens),
            cost.filter(|limit| usage.cost >= *limit).map(Limit::Cost),
            cost.filter(|_| !usage.is_priced()).map(|_| Limit::UnknownCost),
            time.filter(|time| clock.elapsed() >= *time).map(Limit::Time),
        ];
        reached.into_iter().flatten().next()
    }

    /// The remaining time of the run, or `None` without a time limit. The final request after a
    /// limit has no time limit.
    pub fn time_left(&self) -> Option<Duration> {
        let is_last = self.head.state.purpose().limit().is_some();
        let limit = self.head.config.limits.time.filter(|_| !is_last)?;
        Some(limit.saturating_sub(self.head.clock.elapsed()))
    }

    pub(super) fn time_is_up(&self) -> Option<Limit> {
        self.time_left().filter(Duration::is_zero)?;
        self.head.config.limits.time.map(Limit::Time)
    }

    /// Reports that the [time](Self::time_left) was up before the last effect was performed.
    ///
    /// A request is abandoned. Open calls get a [timed out](haft_core::call::FailureKind::TimedOut)
    /// result. The next call of [`next`](Self::next) applies
    /// [`RunConfig::at_limit`](super::RunConfig::at_limit).
    pub fn on_time_up(&mut self) {
        if let Some(limit) = self.head.config.limits.time {
            self.head.clock.expire(limit);
        }
        let now = self.head.now();
        match self.state() {
            RunState::AwaitingReply | RunState::Compacting => {
                self.head.usage += Usage::failed_request();
                self.head.state.request_again();
            }
            _ => {
                if let Some(batch) = self.head.state.batch_mut() {
                    batch.calls.give_up(now);
                }
            }
        }
    }

    /// Reports usage beside the requests of the run, for example of an agent that is a tool.
    pub fn on_usage(&mut self, usage: Usage) {
        self.head.usage += usage;
    }

    /// Sets the time of a step.
    pub(super) fn tick(&mut self, now: Timestamp) {
        self.head.clock.tick(now);
    }

    /// Applies [`RunConfig::at_limit`](super::RunConfig::at_limit). After the final request,
    /// the run fails.
    pub(super) fn reach_limit(&mut self, purpose: Purpose, limit: Limit) -> Transition {
        match (self.head.config.at_limit, purpose.limit()) {
            (AtLimit::Fail, _) => {
                (State::ReadyToRequest { purpose }, Err(AgentErrorKind::LimitReached(limit)))
            }
            (AtLimit::Answer, Some(limit)) => {
                (State::LimitReached { purpose }, Err(AgentErrorKind::LimitReached(limit)))
            }
            (AtLimit::Answer, None) => {
                self.push(marks::hint(format!(
                    "{limit}. No more calls can be made: answer now with what you have."
                )));
                (State::ReadyToRequest { purpose: purpose.with_limit(limit) }, Ok(()))
            }
        }
    }

    /// Tolerates a rejected reply, unless there were too many in a row.
    pub(super) fn tolerate(
        &mut self,
        purpose: Purpose,
        error: impl FnOnce() -> AgentErrorKind,
    ) -> Transition {
        if let Some(limit) = purpose.limit() {
            return self.reach_limit(purpose, limit);
        }
        self.head.rejected_replies += 1;
        let is_too_many = self.head.rejected_replies > self.head.config.max_output_retries;
        (State::ReadyToRequest { purpose }, if is_too_many { Err(error()) } else { Ok(()) })
    }

    /// Returns the limit that forbids calls, if any. `total` is the number of calls of the run,
    /// with the new calls.
    pub(super) fn call_limit(&self, purpose: Purpose, total: u32) -> Option<Limit> {
        let Head { config, repeated_calls, .. } = &self.head;
        let repeats = config.max_repeated_calls.filter(|limit| repeated_calls > limit);
        let too_many = config.limits.tool_calls.filter(|limit| total > *limit);
        purpose.limit().or(repeats.map(Limit::RepeatedCalls)).or(too_many.map(Limit::ToolCalls))
    }
}
