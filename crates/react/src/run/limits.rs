//! What ends a run before its answer.

use std::time::Duration;

use haft_core::{
    Timestamp,
    agent::{AgentErrorKind, Limit, RunLimits},
    usage::Usage,
};

use super::{AtLimit, Head, Phase, Run, mark};

impl Run {
    /// The limit that leaves no request, if there is one.
    pub(super) fn exhausted(&self) -> Option<Limit> {
        let Head { config, requests, usage, shown, elapsed_ms, .. } = &self.head;
        let RunLimits { input_tokens, output_tokens, total_tokens, cost, time, .. } = config.limits;
        let requests = requests.saturating_add(shown.summaries);
        let tokens = |limit: Option<u64>, used: u64| limit.filter(|limit| used >= *limit);
        let is_up = |time: &Duration| Duration::from_millis(*elapsed_ms) >= *time;
        let reached = [
            config.limits.requests.filter(|limit| requests >= *limit).map(Limit::Requests),
            tokens(total_tokens, usage.total_tokens()).map(Limit::TotalTokens),
            tokens(input_tokens, usage.input_tokens).map(Limit::InputTokens),
            tokens(output_tokens, usage.output_tokens).map(Limit::OutputTokens),
            cost.filter(|limit| usage.cost >= *limit).map(Limit::Cost),
            cost.filter(|_| !usage.is_priced()).map(|_| Limit::UnknownCost),
            time.filter(is_up).map(Limit::Time),
        ];
        reached.into_iter().flatten().next()
    }

    /// How much of its time the run has left, where that is limited. Its last request, with which it must answer, is not.
    pub fn time_left(&self) -> Option<Duration> {
        let limit = self.head.config.limits.time.filter(|_| self.head.last_request.is_none())?;
        Some(limit.saturating_sub(Duration::from_millis(self.head.elapsed_ms)))
    }

    /// The limit of the time, if it is up.
    pub(super) fn time_is_up(&self) -> Option<Limit> {
        self.time_left().filter(Duration::is_zero)?;
        self.head.config.limits.time.map(Limit::Time)
    }

    /// Tells that the [time](Self::time_left) was up before the last effect was done: a request is given up, and so are calls, with a
    /// result that says so. What is configured for the limit is done by [`next`](Self::next).
    pub fn on_time_up(&mut self) {
        if let Some(limit) = self.head.config.limits.time {
            let limit = u64::try_from(limit.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
            self.head.elapsed_ms = self.head.elapsed_ms.max(limit);
        }
        let now = self.head.now;
        match &mut self.head.phase {
            Phase::Asked | Phase::Compacting { .. } => {
                self.head.usage += Usage::of_failed_request();
                self.head.phase = Phase::Asking;
            }
            Phase::Calling { calls, .. } => calls.give_up(now),
            _ => {}
        }
    }

    /// Counts what was used beside the requests of the run, such as by an agent that is a tool.
    pub fn on_usage(&mut self, usage: Usage) {
        self.head.usage += usage;
    }

    /// Takes the time of a step. What passed since the last one counts, unless the run was parked, or had no driver.
    pub(super) fn tick(&mut self, now: Timestamp) {
        let passed = now.unix_millis().saturating_sub(self.head.now.unix_millis());
        if self.head.is_timed {
            self.head.elapsed_ms = self.head.elapsed_ms.saturating_add(u64::try_from(passed).unwrap_or(0));
        }
        (self.head.now, self.head.is_timed) = (now, true);
    }

    /// Does what is configured for a limit that is reached. A model that is made to answer gets no second chance.
    pub(super) fn reach(&mut self, limit: Limit) -> Result<(), AgentErrorKind> {
        match (self.head.config.at_limit, self.head.last_request) {
            (AtLimit::Fail, _) => Err(AgentErrorKind::LimitReached(limit)),
            (AtLimit::Answer, Some(limit)) => {
                self.head.phase = Phase::Exhausted { limit };
                Err(AgentErrorKind::LimitReached(limit))
            }
            (AtLimit::Answer, None) => {
                self.head.last_request = Some(limit);
                self.push(mark::hint(format!(
                    "{limit}. No more calls can be made: answer now with what you have."
                )));
                Ok(())
            }
        }
    }

    /// Lets an unusable reply pass, unless there were too many in a row.
    pub(super) fn tolerate(&mut self, error: impl FnOnce() -> AgentErrorKind) -> Result<(), AgentErrorKind> {
        if let Some(limit) = self.head.last_request {
            return self.reach(limit);
        }
        self.head.unusable_replies += 1;
        if self.head.unusable_replies > self.head.config.unusable_replies { Err(error()) } else { Ok(()) }
    }

    /// The limit that forbids the calls of a reply; `tool_calls` is how many the run has with them.
    pub(super) fn forbids(&self, tool_calls: u32) -> Option<Limit> {
        let Head { config, last_request, identical_calls, .. } = &self.head;
        let insists =
            config.identical_calls.filter(|limit| identical_calls > limit).map(Limit::IdenticalCalls);
        let too_many = config.limits.tool_calls.filter(|limit| tool_calls > *limit).map(Limit::ToolCalls);
        last_request.or(insists).or(too_many)
    }
}
