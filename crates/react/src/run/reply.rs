//! Replies: the state `AwaitingReply`.

mod plan;

use std::sync::Arc;

use haft_core::{
    Message, RunEvent, ToolCall,
    agent::{AgentErrorKind, Limit, StopReason},
    call::FailureKind,
    content::Content,
    message::AssistantMessage,
    model::{ModelError, ToolChoice},
};
use serde_json::Value;

use super::{
    ModelReply, Run,
    calls::{OpenCalls, failure_result},
    data::Purpose,
    state::{Answer, Batch, Candidate, Request, State, Transition},
};
use crate::{
    dialect::Reply,
    hook::Verdict,
    output::{Output, parse},
    transcript::marks,
};
use plan::{CallPlan, CallsPlan, Plan, is_answer};

impl Run {
    /// `AwaitingReply`: starts the calls of a reply, accepts it as the answer, or rejects it.
    pub(super) fn read_reply(&mut self, mut request: Request, mut reply: ModelReply) -> Transition {
        self.add_reply_usage(&mut request, reply.reply.usage);
        self.record_reply_tokens(&reply.reply.usage.counted_as_request());
        match self.record_reports(std::mem::take(&mut reply.judgement)) {
            Verdict::Pass | Verdict::Replace(()) => {}
            Verdict::Retry(text) => reply.reply.problem = Some(text),
            Verdict::Block(text) => return self.block_reply(reply.reply.message, text),
            Verdict::End(_) => return State::Ready.fail(self.guardrail_error()),
        }
        if is_empty(&reply.reply) {
            return self.reject_broken_reply(ModelError::EmptyResponse);
        }
        if reply.reply.has_written_calls && request.has_fallback {
            self.move_to_fallback("the model writes calls as text");
        }
        let plan = self.plan(&request, &reply.reply);
        self.commit(plan, reply)
    }

    /// Carries out `plan`, the plan for `reply`.
    fn commit(&mut self, plan: Plan, reply: ModelReply) -> Transition {
        match plan {
            Plan::Fail(error) => State::Ready.fail(error),
            Plan::Reject(problem) => self.reject_reply(reply.reply.message, problem),
            Plan::Refuse => {
                // Calls in the same reply as a refusal are not executed, so they are not recorded
                // either.
                self.push(Message::assistant(without_calls(reply.reply.message)));
                State::answered(StopReason::Refusal, None).go()
            }
            Plan::Answer(outputs) => self.accept_answer(reply.reply.message, outputs),
            Plan::Calls(plan) => self.start_calls(reply, plan),
        }
    }

    /// Records `reply` and starts its calls, unless a limit forbids them.
    fn start_calls(&mut self, reply: ModelReply, plan: CallsPlan) -> Transition {
        let ModelReply { reply: Reply { mut message, has_written_calls: is_written, .. }, tools, .. } = reply;
        let CallsPlan { calls: mut plans, answer } = plan;
        self.reset_tool_choice(&message.tool_calls);
        self.set_unique_ids(&mut message.tool_calls);
        let calls = message.tool_calls.clone();
        let message = match answer {
            Some(_) => self.answer_message(message),
            None => Message::assistant(message),
        };
        self.push(if is_written { marks::mark_written_calls(message) } else { message });
        let executed = plans.iter().filter(|plan| matches!(plan, CallPlan::Execute)).count();
        let mut limit = None;
        if executed > 0 {
            let repeatable = tools.iter().filter(|(_, tool)| tool.repeatable).map(|(name, _)| name.clone());
            self.data.counts.repeatable_tools.extend(repeatable);
            self.data.counts.repeated_calls = self.count_repetitions(calls.len());
            limit = self.count_calls(executed);
        }
        if let Some(limit) = limit.take_if(|_| answer.is_some()) {
            for plan in plans.iter_mut().filter(|plan| matches!(plan, CallPlan::Execute)) {
                *plan = CallPlan::Fail(FailureKind::Denied, format!("not executed: {limit}"));
            }
        }
        let batch = Batch { calls: self.open_calls(OpenCalls::new(calls, &tools), plans), is_written };
        match limit {
            None => State::Calling(batch).go(),
            Some(limit) => {
                self.close_calls(batch, FailureKind::Denied, &format!("not run: {limit}"));
                self.reach_limit(limit)
            }
        }
    }

    /// Stores the failure of each call with [`CallPlan::Fail`], and marks the call with the answer.
    fn open_calls(&self, mut open: OpenCalls, plans: Vec<CallPlan>) -> OpenCalls {
        let now = self.data.clock.now;
        for (index, plan) in plans.into_iter().enumerate() {
            match plan {
                CallPlan::Execute => {}
                CallPlan::Answer => open.set_answer(index),
                CallPlan::Fail(kind, why) => {
                    open.finish_unexecuted(index, |call| failure_result(call, kind, &why, now));
                }
            }
        }
        open
    }

    /// Gives each call a unique id. Answers get their ids last, because a streamed reply announces
    /// the other calls first.
    fn set_unique_ids(&mut self, calls: &mut [ToolCall]) {
        let has_answers = self.requested_outputs().is_some();
        let is_answer = |call: &ToolCall| has_answers && is_answer(call);
        let (answers, others): (Vec<_>, Vec<_>) = calls.iter_mut().partition(|call| is_answer(call));
        Arc::make_mut(&mut self.ids).insert_unique(others.into_iter().chain(answers));
        let answers = calls.iter().filter(|call| is_answer(call));
        self.data.answer_calls.extend(answers.map(|call| call.id.clone()));
    }

    /// Returns `true` if `call`, a call in the reply to the current request, gives the declared
    /// outputs. All other calls are calls of tools.
    pub(crate) fn is_answer_call(&self, call: &ToolCall) -> bool {
        is_answer(call) && self.answer_schema().is_some()
    }

    /// Changes the tool choice to `Auto` if it requires a call and `calls` contain the required
    /// call.
    fn reset_tool_choice(&mut self, calls: &[ToolCall]) {
        let release = |choice: &mut ToolChoice| {
            let has_required_call = match choice {
                ToolChoice::Required => true,
                ToolChoice::Tool(name) => calls.iter().any(|call| call.name == name.as_str()),
                ToolChoice::Auto | ToolChoice::None => false,
            };
            if has_required_call {
                *choice = ToolChoice::Auto;
            }
        };
        release(&mut self.data.config.tool_choice);
        self.data.overrides.tool_choice.iter_mut().for_each(release);
    }

    /// Accepts `message`, a reply without calls, as the answer, with the structured `outputs`. If
    /// the declared outputs need a separate request, the run makes this request next. If hooks
    /// judge answers, they do so first.
    fn accept_answer(&mut self, message: AssistantMessage, outputs: Option<Value>) -> Transition {
        if self.data.config.outputs.is_some() && self.requested_outputs().is_none() {
            let content = parse::finish_arguments(message.content);
            self.push(Message::assistant(AssistantMessage { content, ..message }));
            self.data.counts.rejected_replies = 0;
            self.push(marks::hint_message("Now give the outputs, from what was said and found."));
            self.data.purpose = Purpose::Outputs { limit: None };
            return State::Ready.go();
        }
        let message = match outputs {
            Some(outputs) => AssistantMessage { content: vec![Content::json(outputs)], ..message },
            None => message,
        };
        let stop_reason = self.data.purpose.stop_reason();
        if self.data.config.checks.answer {
            let output = Box::new(self.output_of(&message, stop_reason));
            let answer = Answer { output, message: Some(Box::new(message)), sources: Vec::new() };
            return State::Checking(Candidate::Answer(answer)).go();
        }
        let message = self.answer_message(message);
        self.push(message);
        State::answered(stop_reason, None).go()
    }

    /// Ends the run with `text` in place of the reply `message`, which a hook blocked.
    fn block_reply(&mut self, message: AssistantMessage, text: String) -> Transition {
        let message = without_calls(message);
        if message.is_empty() {
            self.push(Message::assistant(text.as_str()));
        } else {
            self.push(Message::assistant(message));
            self.replace(self.transcript.len() - 1, vec![Content::text(text.as_str())]);
        }
        let output = Output { text, ..Output::empty(StopReason::Blocked) };
        State::answered(StopReason::Blocked, Some(Box::new(output))).go()
    }

    /// Records `message` without its calls as [unusable](marks::is_unusable), and requests a
    /// corrected reply from the model. `problem` is the error text for the model.
    fn reject_reply(&mut self, message: AssistantMessage, problem: String) -> Transition {
        let message = without_calls(message);
        if !message.is_empty() {
            self.push(marks::mark_unusable(Message::assistant(message)));
        }
        self.request_correction(problem)
    }

    /// Records the text `generation`, which the server could not parse or validate, as
    /// [unusable](marks::is_unusable), and requests a corrected reply. `reason` is the error text
    /// of the server. Fails with `error` if too many replies in a row were rejected, and with the
    /// limit if the reply belongs to the final request after a limit.
    pub(super) fn reject_generation(
        &mut self,
        reason: String,
        generation: Option<String>,
        error: ModelError,
    ) -> Transition {
        if let Some(text) = generation.filter(|text| !text.trim().is_empty()) {
            self.push(marks::mark_unusable(Message::assistant(text)));
        }
        let failure = self.count_rejection(|| error.into());
        failure.unwrap_or_else(|| self.correct(reason))
    }

    /// Adds `problem` as a hint to the transcript and repeats the request, so that the model
    /// corrects its reply. Fails if too many replies in a row were rejected, or if the request is
    /// the final request after a limit.
    pub(super) fn request_correction(&mut self, problem: String) -> Transition {
        let limit = Limit::RejectedReplies(self.data.config.max_output_retries.saturating_add(1));
        let failure = self.count_rejection(|| AgentErrorKind::LimitReached(limit));
        failure.unwrap_or_else(|| self.correct(problem))
    }

    fn correct(&mut self, problem: String) -> Transition {
        self.emit_rejection(problem.clone());
        self.push(marks::hint_message(problem));
        State::Ready.go()
    }

    pub(super) fn emit_rejection(&mut self, problem: String) {
        self.events.push(RunEvent::ReplyRejected { problem });
    }

    /// Returns the number of times in a row that the model has made its latest call, or its latest
    /// cycle of calls such as A, B, A, B, with equal results. `latest` is the number of calls in
    /// the last reply. If [`max_repeated_calls`](super::RunConfig::max_repeated_calls) is `None`,
    /// the result is always 1.
    ///
    /// A single reply can repeat a call more often than permitted. The result is then capped at the
    /// limit, so that the model is warned before the run is stopped.
    fn count_repetitions(&mut self, latest: usize) -> u32 {
        let Some(limit) = self.data.config.max_repeated_calls else { return 1 };
        self.update_history();
        let times = self.history.repetitions(latest, limit);
        if self.data.counts.repeated_calls < limit { times.min(limit) } else { times }
    }

    /// Adds the new calls and results in the transcript to the history.
    pub(super) fn update_history(&mut self) {
        let own = self.transcript.messages().get(self.data.first_message..);
        let repeatable = &self.data.counts.repeatable_tools;
        let history = Arc::make_mut(&mut self.history);
        history.update(own.unwrap_or_default(), |name| repeatable.contains(name));
    }
}

/// Returns `true` if `reply` has no text, calls, refusal or problem, and was not cut off.
fn is_empty(reply: &Reply) -> bool {
    !reply.finish_reason.is_cut()
        && reply.problem.is_none()
        && reply.message.refusal.is_none()
        && reply.message.is_empty()
}

fn without_calls(message: AssistantMessage) -> AssistantMessage {
    AssistantMessage { tool_calls: Vec::new(), ..message }
}
