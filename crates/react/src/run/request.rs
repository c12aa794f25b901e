//! Requests to the model.

use haft_core::{agent::AgentErrorKind, model::ModelError, usage::Usage};

use super::{Effect, Run, RunError, RunState, Step, limits::Transition, state::State};
use crate::dialect::{Prompt, Reply};

impl Run {
    /// Completes the step: added calls, then enqueued messages. Then the inputs of the next request
    /// are prepared.
    pub(super) fn prepare(&mut self, step: &Step<'_>) -> Result<Option<Effect>, AgentErrorKind> {
        if self.open_added_calls(step.resolver)? {
            return Ok(None);
        }
        self.deliver_next();
        self.head.state.prepare();
        Ok(Some(Effect::Prepare))
    }

    pub(super) fn request(&mut self, step: &Step<'_>) -> Result<Option<Effect>, AgentErrorKind> {
        // Calls and messages that arrived while the inputs were prepared.
        if self.open_added_calls(step.resolver)? {
            return Ok(None);
        }
        self.deliver_next();
        let purpose = self.head.state.purpose();
        if let (None, Some(limit)) = (purpose.limit(), self.exhausted()) {
            let (next, result) = self.reach_limit(purpose, limit);
            if result.is_err() {
                self.head.state.discard_inputs();
            } else if let State::ReadyToRequest { purpose } = next {
                self.head.state.change_purpose(purpose);
            }
            result?;
        }
        let purpose = self.head.state.purpose();
        if self.exceeds_tokens() && self.reduce() && self.state() == RunState::Compacting {
            return Ok(self.compact(step.resolver));
        }
        let tool_choice = self.choose(purpose, step)?;
        let request = step.dialect.request(&Prompt {
            messages: self.view(step.resolver),
            tools: step.tools,
            instructions: step.instructions,
            outputs: self.outputs(),
            must_answer: purpose.must_answer(),
            tool_choice: &tool_choice,
            settings: step.settings.unwrap_or(&self.head.config.settings),
        });
        self.head.requests += 1;
        self.head.state.send(tool_choice);
        Ok(Some(Effect::Chat(Box::new(request))))
    }

    /// Reports the reply to [`Effect::Chat`], as the dialect [folds](crate::Dialect::fold) it.
    ///
    /// After an error the request can be repeated. Empty, unreadable and truncated replies are
    /// tolerated up to [`RunConfig::max_output_retries`](super::RunConfig::max_output_retries)
    /// times in a row. They are discarded, and their calls are not executed.
    ///
    /// # Errors
    ///
    /// Returns the error of the model if the run cannot tolerate it.
    pub fn on_chat(&mut self, reply: Result<Reply, ModelError>) -> Result<(), AgentErrorKind> {
        if self.state() != RunState::AwaitingReply {
            return Err(RunError::NoRequest.into());
        }
        match reply {
            Ok(reply) => {
                let usage = reply.usage.of_reply();
                self.head.usage += usage;
                self.note_tokens(usage.total_tokens());
                self.head.state.receive(reply);
                Ok(())
            }
            Err(error) => {
                self.head.usage += Usage::failed_request();
                self.request_failed(error)
            }
        }
    }

    fn request_failed(&mut self, error: ModelError) -> Result<(), AgentErrorKind> {
        let purpose = self.head.state.purpose();
        let (next, result): Transition = match last_error(&error) {
            ModelError::ContextTooLong(_) => {
                if self.reduce() {
                    if self.state() == RunState::AwaitingReply {
                        self.head.state.request_again();
                    }
                    return Ok(());
                }
                (State::ReadyToRequest { purpose }, Err(error.into()))
            }
            // No request follows. The error contains the partial reply, which is more useful than
            // the name of the limit.
            ModelError::Truncated { .. } if purpose.limit().is_some() => {
                (State::ReadyToRequest { purpose }, Err(error.into()))
            }
            _ if is_broken_reply(&error) => self.tolerate(purpose, || error.into()),
            _ => (State::ReadyToRequest { purpose }, Err(error.into())),
        };
        self.head.state.reject_reply(next);
        result
    }
}

/// Returns `true` if the model replied, but the reply is empty, unreadable or truncated. Another
/// request may succeed.
pub fn is_broken_reply(error: &ModelError) -> bool {
    let error = last_error(error);
    matches!(error, ModelError::EmptyResponse | ModelError::InvalidResponse(_) | ModelError::Truncated { .. })
}

/// The error of the last model, if several were tried.
fn last_error(error: &ModelError) -> &ModelError {
    match error {
        ModelError::AllFailed { failures } => failures.last().map_or(error, |last| last_error(&last.error)),
        other => other,
    }
}
