//! What ends a run before its answer.

use haft_core::{AgentErrorKind, Limit};

use super::{AtLimit, Head, Phase, Run, mark};

impl Run {
    /// The limit that leaves no request, if there is one.
    pub(super) fn exhausted(&self) -> Option<Limit> {
        let Head { config, requests, usage, shown, .. } = &self.head;
        let requests = requests.saturating_add(shown.summaries);
        let of_requests = config.limits.requests.filter(|limit| requests >= *limit).map(Limit::Requests);
        let total_tokens = usage.total_tokens();
        let of_tokens = config.limits.total_tokens.filter(|limit| total_tokens >= *limit);
        of_requests.or(of_tokens.map(Limit::TotalTokens))
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
