//! Handling of replies from the model.

use haft_core::{
    Message,
    agent::{AgentErrorKind, Limit, StopReason},
    content::Content,
    message::AssistantMessage,
    model::{FinishReason, ModelError, ToolChoice},
    toolset::ToolList,
};

use super::{
    OutputStrategy, Run, Step,
    limits::Transition,
    message_metadata, parse_answer,
    state::{RequestPurpose, SentRequest, State},
};
use crate::dialect::Reply;

impl Run {
    /// Applies the received reply, if there is one: starts its calls, accepts it as the answer, or
    /// rejects it.
    ///
    /// Without a `step`, calls in the text of the reply are not taken.
    pub(super) fn apply_reply(&mut self, step: Option<&Step<'_>>) -> Result<(), AgentErrorKind> {
        let Some((request, mut reply)) = self.head.state.take_reply() else { return Ok(()) };
        if let Some(step) = step {
            // Drivers that parse the reply by the dialect alone have not taken written calls yet.
            reply = match self.read_written_calls(reply, &request, step) {
                Ok(reply) => reply,
                Err(error) => {
                    self.head.state.finish_reply(State::ReadyToRequest { purpose: request.purpose });
                    return Err(error);
                }
            };
        }
        if reply.has_written_calls {
            self.move_after_written_calls(&request);
        }
        let (next, result) = self.read_reply(&request, reply, step);
        self.head.state.finish_reply(next);
        result
    }

    fn read_reply(&mut self, request: &SentRequest, reply: Reply, step: Option<&Step<'_>>) -> Transition {
        let purpose = request.purpose;
        let is_written = reply.has_written_calls;
        let message = reply.message;
        match reply.finish_reason {
            // The error contains the truncated reply, and the transcript does not contain it.
            FinishReason::Length => return repeat_request(purpose, Err(truncated_error(message))),
            FinishReason::ContentFilter => {
                return repeat_request(purpose, Err(AgentErrorKind::ContentFiltered { reason: None }));
            }
            _ => {}
        }
        // Gateways that emulate a response format by a tool announce a call to a request without
        // tools.
        let may_call = !purpose.must_answer()
            && request.tool_choice != ToolChoice::None
            && step.is_none_or(|step| !step.tools.is_empty());
        let announces_call =
            may_call && reply.finish_reason == FinishReason::ToolCalls && message.tool_calls.is_empty();
        if let Some(problem) = reply.problem {
            return self.reject_reply(purpose, message, problem);
        }
        if message.refusal.is_some() {
            // Calls in the same reply as a refusal are not executed, so they are not recorded
            // either.
            self.push(Message::assistant(AssistantMessage { tool_calls: Vec::new(), ..message }));
            return (State::finishing(StopReason::Refusal, None), Ok(()));
        }
        // Some servers drop a call that they cannot parse, and return the text before it.
        if announces_call {
            let problem = "Your reply announced a tool call and had none. Make the call, or give the answer.";
            return self.reject_reply(purpose, message, problem.to_owned());
        }
        let has_answer = self.has_answer_call(purpose, &message);
        let can_answer = has_answer && request.tool_choice == ToolChoice::None;
        if let Some(problem) = Self::tool_choice_problem(request, &message).filter(|_| !can_answer) {
            return self.reject_reply(purpose, message, problem);
        }
        if message.tool_calls.is_empty() {
            self.read_answer(purpose, message)
        } else if !has_answer && matches!(purpose, RequestPurpose::Outputs { .. }) {
            self.reject_reply(purpose, message, "No more calls can be made. Give the outputs.".to_owned())
        } else {
            self.read_calls(request, message, is_written, step)
        }
    }

    /// Accepts `message`, a reply without calls, as the answer, or starts its validation. Rejects
    /// the message if it does not fit the output schema. If the declared outputs need a separate
    /// request, the run makes this request next.
    fn read_answer(&mut self, purpose: RequestPurpose, message: AssistantMessage) -> Transition {
        let message = match self.outputs_of(purpose) {
            None => message,
            Some(schema) => match parse_answer::parse_answer(&self.head.config, schema, &message.content) {
                Ok(outputs) => AssistantMessage { content: vec![Content::json(outputs)], ..message },
                Err(problem) => return self.reject_reply(purpose, message, problem),
            },
        };
        if self.head.config.outputs.is_some() && self.outputs_of(purpose).is_none() {
            let content = parse_answer::finish_arguments(message.content);
            self.push(Message::assistant(AssistantMessage { content, ..message }));
            self.head.rejected_replies = 0;
            self.push(message_metadata::hint_message("Now give the outputs, from what was said and found."));
            return repeat_request(RequestPurpose::Outputs { limit: None }, Ok(()));
        }
        let stop_reason = purpose.stop_reason();
        if self.head.config.check_outputs {
            let output = self.output_of(&message, stop_reason);
            let output = Box::new(output);
            let message = Some(Box::new(message));
            return (State::CheckingOutput { purpose, output, message, sources: Vec::new() }, Ok(()));
        }
        let message = self.answer_message(purpose, message);
        self.push(message);
        (State::finishing(stop_reason, None), Ok(()))
    }

    /// Returns the transcript message of an accepted answer.
    pub(super) fn answer_message(&self, purpose: RequestPurpose, message: AssistantMessage) -> Message {
        let config = &self.head.config;
        let is_extracted = config.outputs.is_some()
            && config.output_strategy == OutputStrategy::Extraction
            && purpose.must_answer();
        let message = Message::assistant(message);
        if is_extracted { message_metadata::mark_extracted(message) } else { message }
    }

    /// Records `message` without its calls as [unusable](super::is_unusable), and requests a
    /// corrected reply from the model. `problem` is the error text for the model. Fails if too many
    /// replies in a row were rejected, or if `message` is the reply to the final request after a
    /// limit.
    pub(super) fn reject_reply(
        &mut self,
        purpose: RequestPurpose,
        message: AssistantMessage,
        problem: String,
    ) -> Transition {
        let message = AssistantMessage { tool_calls: Vec::new(), ..message };
        if !message.is_empty() {
            self.push(message_metadata::mark_unusable(Message::assistant(message)));
        }
        self.request_correction(purpose, problem)
    }

    /// Records the text `generation`, which the server could not parse or validate, as
    /// [unusable](super::is_unusable), and requests a corrected reply. `reason` is the error text
    /// of the server. Fails with `error` if too many replies in a row were rejected, or if the
    /// reply belongs to the final request after a limit.
    pub(super) fn reject_generation(
        &mut self,
        purpose: RequestPurpose,
        reason: String,
        generation: Option<String>,
        error: ModelError,
    ) -> Transition {
        if let Some(text) = generation.filter(|text| !text.trim().is_empty()) {
            self.push(message_metadata::mark_unusable(Message::assistant(text)));
        }
        let (next, result) = self.retry_rejected_reply(purpose, || error.into());
        if result.is_ok() {
            self.push(message_metadata::correction_message(reason));
        }
        (next, result)
    }

    /// Adds `problem` as a hint to the transcript and repeats the request, so that the model
    /// corrects its reply. Fails if too many replies in a row were rejected, or if the request is
    /// the final request after a limit.
    pub(super) fn request_correction(&mut self, purpose: RequestPurpose, problem: String) -> Transition {
        let limit = Limit::RejectedReplies(self.head.config.max_output_retries.saturating_add(1));
        let (next, result) = self.retry_rejected_reply(purpose, || AgentErrorKind::LimitReached(limit));
        if result.is_ok() {
            self.push(message_metadata::correction_message(problem));
        }
        (next, result)
    }

    /// Returns the error texts that the run sent to the model after rejected replies, from the
    /// transcript index `message` on. An empty reply has no error text, because the run only
    /// repeats the request. A rejected reply with content is also in the transcript, marked as
    /// [unusable](super::is_unusable).
    pub fn rejections_since(&self, message: usize) -> impl Iterator<Item = String> + '_ {
        let new = self.transcript.messages().get(message..).unwrap_or_default();
        new.iter().filter(|message| message_metadata::is_correction(message)).map(|message| message.text())
    }

    /// Returns the number of times in a row that the model has made its latest call, or its latest
    /// cycle of calls such as A, B, A, B, with equal results. `tools` are the tools of the latest
    /// calls. `latest` is the number of calls in the last reply. If
    /// `max_repeated_calls` is `None`, the result is always 1.
    ///
    /// A single reply can repeat a call more often than permitted. The result is then capped at the
    /// limit, so that the model is warned before the run is stopped.
    pub(super) fn count_repetitions(&mut self, latest: usize, tools: Option<&ToolList>) -> u32 {
        let Some(limit) = self.head.config.max_repeated_calls else { return 1 };
        self.update_history(tools);
        let times = self.history.repetitions(latest, limit);
        if self.head.repeated_calls < limit { times.min(limit) } else { times }
    }

    /// Adds the new calls and results in the transcript to the history. `tools` are the tools of
    /// the new calls.
    pub(super) fn update_history(&mut self, tools: Option<&ToolList>) {
        let own = self.transcript.messages().get(self.head.first_message..);
        let is_repeatable = |name: &str| {
            tools.and_then(|tools| tools.get(name)).is_some_and(|tool| tool.definition().policy().repeatable)
        };
        self.history.update(own.unwrap_or_default(), is_repeatable);
    }
}

/// Returns the transition to another request with this `purpose`. `result` is for the driver.
fn repeat_request(purpose: RequestPurpose, result: Result<(), AgentErrorKind>) -> Transition {
    (State::ReadyToRequest { purpose }, result)
}

fn truncated_error(partial: AssistantMessage) -> AgentErrorKind {
    let reason = "it reached the limit of tokens of one reply".to_owned();
    ModelError::Truncated { reason, partial: Box::new(partial) }.into()
}
