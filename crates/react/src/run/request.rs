//! Model requests of a run.

use std::mem;

use haft_core::{agent::AgentErrorKind, model::ModelError, usage::Usage};

use super::{
    Effect, LimitAction, Run, RunBudget, RunError, RunState, Step,
    limits::Transition,
    state::{SentRequest, State},
};
use crate::{
    dialect::{Prompt, Reply},
    host_panic::catch_dialect_panic,
};

impl Run {
    /// Delivers the messages enqueued for the next request and returns [`Effect::Prepare`]. The
    /// messages stay enqueued if a limit ends the run before this request.
    pub(super) fn prepare(&mut self) -> Effect {
        if !self.head.enqueued.is_empty() && !self.is_stopping() && !self.fails_at_next_request() {
            self.deliver_next();
        }
        self.head.state.prepare();
        Effect::Prepare
    }

    /// Returns `true` if a limit ends the run before the next model request.
    fn fails_at_next_request(&self) -> bool {
        self.head.config.limit_action == LimitAction::Fail
            && self.head.state.purpose().limit().is_none()
            && self.next_request_limit().is_some()
    }

    /// Returns the next model request as an effect, or a compaction if the context is too long.
    pub(super) fn build_request(&mut self, step: &Step<'_>) -> Result<Option<Effect>, AgentErrorKind> {
        self.check_stop()?;
        let purpose = self.head.state.purpose();
        if let (None, Some(limit)) = (purpose.limit(), self.next_request_limit()) {
            let (next, result) = self.apply_limit_action(purpose, limit);
            if result.is_err() {
                self.head.state.discard_inputs();
            } else if let State::ReadyToRequest { purpose } = next {
                self.head.state.change_purpose(purpose);
            }
            result?;
        }
        if let Err(error) = take_nested_request(step) {
            self.head.state.discard_inputs();
            return Err(error);
        }
        self.deliver_next();
        if let Some(check) = self.check_before_request() {
            return Ok(Some(Effect::CheckInput(check)));
        }
        let purpose = self.head.state.purpose();
        if self.take_tokens_exceeded() && self.shorten_context() && self.state() == RunState::Compacting {
            return Ok(self.compact_effect());
        }
        let tool_choice = self.effective_tool_choice(purpose, step)?;
        let dialect = self.try_dialect(step)?;
        let reserved = || catch_dialect_panic("Dialect::reserved_name", || dialect.reserved_name(None));
        let is_before_extraction = self.outputs_of(purpose).is_none() && self.head.config.outputs.is_some();
        let has_bare_finish = is_before_extraction && reserved()?.is_some();
        let has_fallback = catch_dialect_panic("Dialect::fallback", || dialect.fallback().is_some())?;
        let sent = SentRequest { purpose, tool_choice, has_bare_finish, has_fallback };
        let view = self.view();
        let messages = match step.history {
            Some(change) => change(view, self)?,
            None => view,
        };
        let settings = self.limited_settings(step.settings.unwrap_or(&self.head.config.settings));
        let prompt = Prompt {
            messages,
            tools: step.tools,
            instructions: step.instructions,
            outputs: self.outputs_in(&sent),
            must_answer: purpose.must_answer(),
            tool_choice: &sent.tool_choice,
            settings: &settings,
        };
        let request = catch_dialect_panic("Dialect::build_request", || dialect.build_request(&prompt))?;
        self.head.requests += 1;
        self.head.state.await_reply(sent);
        Ok(Some(Effect::Chat(Box::new(request))))
    }

    /// Reports the outcome of [`Effect::Chat`]: the reply as [parsed](crate::Dialect::parse_reply)
    /// by the dialect, or the error of the model.
    ///
    /// If the error means that the reply is [broken](is_broken_reply), the reply is discarded with
    /// its calls and the request is repeated, at most
    /// [`RunConfig::max_output_retries`](super::RunConfig::max_output_retries) times in a row. An
    /// empty reply is also discarded and the request repeated: the state is then
    /// [`RunState::ReadyToRequest`]. All other replies are applied by the next call to
    /// [`next`](Self::next). After [`ModelError::InvalidGeneration`], the repeated request has the
    /// error text of the server as a correction. If the request is too long for the model, it is
    /// shortened as configured in [`RunConfig::context`](super::RunConfig::context) and repeated.
    ///
    /// # Errors
    ///
    /// Fails if no model request is in flight. Fails with the error of the model if the request is
    /// not repeated. If the reply to the final request after a limit is empty or unreadable, fails
    /// with [`AgentErrorKind::LimitReached`] instead. After an error of the model, the run remains
    /// valid, and the driver can repeat the request.
    pub fn on_chat(&mut self, reply: Result<Reply, ModelError>) -> Result<(), AgentErrorKind> {
        if self.state() != RunState::AwaitingReply {
            return Err(RunError::NoRequestInProgress.into());
        }
        match reply {
            Ok(reply) => {
                let usage = reply.usage.counted_as_request();
                self.head.usage += usage;
                self.record_reply_tokens(&usage);
                if is_empty(&reply) {
                    let purpose = self.head.state.purpose();
                    let (next, result) =
                        self.retry_rejected_reply(purpose, || ModelError::EmptyResponse.into());
                    self.head.state.reject_reply(next);
                    return result;
                }
                self.head.state.store_reply(reply);
                Ok(())
            }
            Err(error) => {
                self.head.usage += Usage::failed_request();
                self.handle_request_failure(error)
            }
        }
    }

    /// Reports that the reply to [`Effect::Chat`] was received but cannot be used, for example
    /// because a hook failed. Adds `usage`, the usage of the reply, to the usage of the run. If the
    /// run is still waiting for the reply, it repeats the request.
    pub fn on_lost_reply(&mut self, usage: Usage) {
        self.head.usage += usage.counted_as_request();
        if self.state() == RunState::AwaitingReply {
            self.head.state.request_again();
        }
    }

    /// Counts the model request in flight, if any, as failed, before the request is abandoned.
    pub(super) fn count_abandoned_request(&mut self) {
        let is_summary = mem::take(&mut self.head.context_range.is_summary_in_flight);
        if is_summary || self.state() == RunState::AwaitingReply {
            self.head.usage += Usage::failed_request();
        }
    }

    fn handle_request_failure(&mut self, error: ModelError) -> Result<(), AgentErrorKind> {
        if self.moves_after_error(&error) {
            self.head.state.request_again();
            return Ok(());
        }
        let purpose = self.head.state.purpose();
        let (next, result): Transition = match last_model_error(&error) {
            ModelError::ContextTooLong(_) => {
                if self.shorten_context() {
                    if self.state() == RunState::AwaitingReply {
                        self.head.state.request_again();
                    }
                    return Ok(());
                }
                (State::ReadyToRequest { purpose }, Err(error.into()))
            }
            // The final request is not repeated. The error contains the partial reply, which is
            // more useful than the name of the limit.
            ModelError::Truncated { .. } if purpose.limit().is_some() => {
                (State::ReadyToRequest { purpose }, Err(error.into()))
            }
            ModelError::InvalidGeneration { reason, generation } => {
                let (reason, generation) = (reason.clone(), generation.clone());
                self.reject_generation(purpose, reason, generation, error)
            }
            ModelError::ContentFiltered(reason) => {
                let reason = Some(reason.clone());
                (State::ReadyToRequest { purpose }, Err(AgentErrorKind::ContentFiltered { reason }))
            }
            _ if is_broken_reply(&error) => self.retry_rejected_reply(purpose, || error.into()),
            _ => (State::ReadyToRequest { purpose }, Err(error.into())),
        };
        self.head.state.reject_reply(next);
        result
    }
}

/// Takes a request from the budgets of the enclosing runs. Fails if a limit of one of them is
/// reached.
pub(super) fn take_nested_request(step: &Step<'_>) -> Result<(), AgentErrorKind> {
    let taken = step.budget.map_or(Ok(()), RunBudget::take_request);
    taken.map_err(AgentErrorKind::LimitReached)
}

/// Returns `true` if `reply` has no text, calls, refusal or problem, and was not cut off.
fn is_empty(reply: &Reply) -> bool {
    !reply.finish_reason.is_cut()
        && reply.problem.is_none()
        && reply.message.refusal.is_none()
        && reply.message.is_empty()
}

/// Returns `true` if `error` means that the model replied, but the reply is empty, unreadable,
/// truncated, or was rejected by the server. The same request may succeed if it is repeated.
pub fn is_broken_reply(error: &ModelError) -> bool {
    let error = last_model_error(error);
    matches!(
        error,
        ModelError::EmptyResponse
            | ModelError::InvalidResponse(_)
            | ModelError::InvalidGeneration { .. }
            | ModelError::Truncated { .. }
    )
}

/// Returns the error of the last model if `error` is from a fallback that tried several models.
/// Returns other errors unchanged.
pub(super) fn last_model_error(error: &ModelError) -> &ModelError {
    match error {
        ModelError::AllFailed { failures } => {
            failures.last().map_or(error, |last| last_model_error(&last.error))
        }
        other => other,
    }
}
