//! Model requests: the states `Ready`, `Preparing`, `AwaitingReply` and `Compacting`.

use haft_core::{
    Message,
    agent::{AgentErrorKind, StopReason},
    model::{ChatResponse, ModelError},
    usage::Usage,
};

use super::{
    Effect, LimitAction, PreparedRequest, Run, RunError,
    error::{is_broken_reply, last_model_error},
    state::{Candidate, Request, State, Transition},
};
use crate::{dialect::rejects_tools, hook::Verdict, transcript::marks::summary_message};

impl Run {
    /// `Ready`: delivers the enqueued messages, applies the limits, shortens the context, and
    /// checks the input. Then requests the preparation of the next request.
    pub(super) fn begin_step(&mut self) -> Transition {
        // The messages stay enqueued if a limit ends the run before this request.
        if !self.fails_at_next_request() {
            self.deliver_next();
        }
        if let (None, Some(limit)) = (self.data.purpose.limit(), self.next_request_limit()) {
            let transition = self.reach_limit(limit);
            if transition.result.is_err() {
                return transition;
            }
        }
        if self.exceeds_context() {
            let state = self.shorten_context().unwrap_or(State::Ready);
            if let State::Compacting { .. } = state {
                return state.go();
            }
        }
        match self.unchecked_input() {
            Some(indices) => State::Checking(Candidate::Input { indices, is_rejected: false }).go(),
            None => State::Preparing { request: None }.go(),
        }
    }

    /// Returns `true` if a limit ends the run before the next model request.
    fn fails_at_next_request(&self) -> bool {
        self.data.config.limit_action == LimitAction::Fail
            && self.data.purpose.limit().is_none()
            && self.next_request_limit().is_some()
    }

    /// `Preparing`, with [`Outcome::Prepared`](super::Outcome::Prepared).
    pub(super) fn accept_request(&mut self, mut prepared: PreparedRequest) -> Transition {
        match self.record_reports(std::mem::take(&mut prepared.judgement)) {
            Verdict::Pass | Verdict::Replace(()) => {}
            Verdict::Retry(_) => return State::Preparing { request: None }.fail(RunError::OtherCheck),
            Verdict::Block(text) => {
                self.push(Message::assistant(text.as_str()));
                return State::answered(StopReason::Blocked, None).go();
            }
            Verdict::End(_) => return State::Ready.fail(self.guardrail_error()),
        }
        State::Preparing { request: Some(prepared.into()) }.go()
    }

    /// `Preparing`: sends the prepared `request`, unless the run has reached a limit in the
    /// meantime.
    pub(super) fn send(&mut self, request: Request) -> Transition {
        if let (None, Some(limit)) = (self.data.purpose.limit(), self.reached_limit()) {
            return self.reach_limit(limit);
        }
        self.data.counts.requests += 1;
        State::AwaitingReply(request).with(Effect::Chat)
    }

    /// `AwaitingReply`: counts the usage of a reply whose hooks still run.
    pub(super) fn count_usage(&mut self, mut request: Request, usage: Usage) -> Transition {
        self.add_reply_usage(&mut request, usage);
        State::AwaitingReply(request).go()
    }

    /// Adds the usage of the reply to `request`, as far as it is not counted yet.
    pub(super) fn add_reply_usage(&mut self, request: &mut Request, usage: Usage) {
        let usage = usage.counted_as_request();
        self.data.counts.usage += usage.saturating_sub(request.counted);
        request.counted = usage;
    }

    /// Counts a request in flight as failed before it is abandoned.
    pub(super) fn abandon_request(&mut self, request: &Request) {
        if request.counted == Usage::default() {
            self.data.counts.usage += Usage::failed_request();
        }
    }

    /// `AwaitingReply`: processes `error`, the outcome of `request`. The request is repeated if its
    /// reply is [broken](is_broken_reply), if it can be shortened, or if the run moves to the
    /// fallback of its dialect.
    pub(super) fn handle_request_failure(&mut self, request: &Request, error: ModelError) -> Transition {
        self.abandon_request(request);
        if request.has_fallback && rejects_tools(last_model_error(&error)) {
            self.move_to_fallback("the server does not support tools");
            return State::Ready.go();
        }
        match last_model_error(&error) {
            ModelError::ContextTooLong(_) => match self.shorten_context() {
                Some(state) => state.go(),
                None => State::Ready.fail(error),
            },
            // The final request is not repeated. The error contains the partial reply, which is
            // more useful than the name of the limit.
            ModelError::Truncated { .. } if self.data.purpose.limit().is_some() => State::Ready.fail(error),
            ModelError::InvalidGeneration { reason, generation } => {
                let (reason, generation) = (reason.clone(), generation.clone());
                self.reject_generation(reason, generation, error)
            }
            ModelError::ContentFiltered(reason) => {
                let reason = Some(reason.clone());
                State::Ready.fail(AgentErrorKind::ContentFiltered { reason })
            }
            _ if is_broken_reply(&error) => self.reject_broken_reply(error),
            _ => State::Ready.fail(error),
        }
    }

    /// Moves the run to the fallback of its dialect.
    pub(super) fn move_to_fallback(&mut self, reason: &'static str) {
        tracing::info!(reason, "the run moves to the fallback of its dialect");
        self.data.uses_fallback_dialect = true;
    }

    /// `Compacting`: requests the summary. The effect may be returned repeatedly, but its request
    /// is counted once.
    pub(super) fn request_summary(&mut self, until: usize, is_requested: bool) -> Transition {
        self.data.counts.summaries += u32::from(!is_requested);
        let part = self.view_until(until);
        State::Compacting { until, is_requested: true }.with(Effect::Compact(part))
    }

    /// `Compacting`: replaces the messages before the index `until` by the summary. If there is no
    /// usable summary, omits the oldest turn or step.
    pub(super) fn apply_summary(
        &mut self,
        until: usize,
        summary: Result<Box<ChatResponse>, ModelError>,
    ) -> Transition {
        self.data.counts.usage += match &summary {
            Ok(response) => response.usage.counted_as_request(),
            Err(_) => Usage::failed_request(),
        };
        match summary.and_then(|response| summary_text(*response)) {
            Ok(text) => {
                let index = self.transcript.len();
                self.push(summary_message(text, index.saturating_sub(until)));
                self.data.window.summarize(index, until);
            }
            Err(error) => {
                tracing::warn!(%error, "the conversation cannot be summarized");
                self.omit_oldest();
            }
        }
        State::Ready.go()
    }
}

/// Returns the text of the summary in `response`. Fails if the summary is empty or truncated: a
/// truncated summary lacks the list of open work at its end.
fn summary_text(response: ChatResponse) -> Result<String, ModelError> {
    let text = response.message.text();
    match text.trim() {
        _ if response.finish_reason.is_cut() => Err(ModelError::Truncated {
            reason: "the summary is not whole".to_owned(),
            partial: Box::new(response.message),
        }),
        "" => Err(ModelError::EmptyResponse),
        _ => Ok(text),
    }
}
