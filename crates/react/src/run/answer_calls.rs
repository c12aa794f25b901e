//! Replies with calls, also with a call to `finish` beside other calls.

use haft_core::{
    Message, Schema, ToolCall, call::FailureKind, content::Content, message::AssistantMessage,
    model::ToolChoice,
};
use serde_json::Value;

use super::{
    EndStrategy, Run, Step,
    limits::Transition,
    message_metadata, parse_answer,
    state::{Batch, RequestPurpose, SentRequest, State},
};
use crate::{
    dialect::FINISH,
    open_calls::{OpenCalls, failure_result},
};

/// The handling of a call in a reply.
enum CallPlan {
    /// The call is executed.
    Execute,
    /// The call gives the answer of the run.
    Answer,
    /// The call gets a failure without being executed.
    Fail(FailureKind, String),
}

impl Run {
    /// Returns `true` if `call`, a call in the reply to the current request, gives the declared
    /// outputs. All other calls are calls of tools.
    pub fn is_answer_call(&self, call: &ToolCall) -> bool {
        is_answer(call) && self.outputs().is_some()
    }

    /// Returns `true` if a call in `message` gives the declared outputs. A dialect reads a single
    /// call to `finish` as an answer, so the message usually has several calls.
    pub(super) fn has_answer_call(&self, purpose: RequestPurpose, message: &AssistantMessage) -> bool {
        message.tool_calls.iter().any(is_answer) && self.outputs_of(purpose).is_some()
    }

    /// Records `message`, a reply with calls, and starts its calls unless a limit forbids them.
    /// `is_written` is `true` if the model wrote the calls as text.
    ///
    /// Calls to `finish` are applied as specified by [`EndStrategy`]. The first valid answer ends
    /// the run. Without a valid answer, the other calls are executed, and the model reads the
    /// errors of its answers.
    pub(super) fn read_calls(
        &mut self,
        request: &SentRequest,
        mut message: AssistantMessage,
        is_written: bool,
        step: Option<&Step<'_>>,
    ) -> Transition {
        let purpose = request.purpose;
        let mut plans = self.plan_calls(request, &message.tool_calls);
        let answer = plans.iter().position(|plan| matches!(plan, CallPlan::Answer));
        let others = plans.iter().filter(|plan| matches!(plan, CallPlan::Execute)).count();
        let must_answer = purpose.must_answer() || request.tool_choice == ToolChoice::None;
        if answer.is_none() && (others == 0 || (must_answer && purpose.limit().is_none())) {
            let problem = plans.into_iter().find_map(|plan| match plan {
                CallPlan::Fail(_, problem) => Some(problem),
                _ => None,
            });
            return self.reject_reply(purpose, message, problem.unwrap_or_default());
        }
        self.head.reset_tool_choice(&message.tool_calls);
        if self.outputs_of(purpose).is_some() {
            // Answers get their ids last, because a streamed reply announces the other calls first.
            let calls = message.tool_calls.iter_mut();
            let (last, first): (Vec<_>, Vec<_>) = calls.partition(|call| is_answer(call));
            self.ids.insert_unique(first.into_iter().chain(last));
            let answers = message.tool_calls.iter().filter(|call| is_answer(call));
            self.head.answer_calls.extend(answers.map(|call| call.id.clone()));
        } else {
            self.ids.insert_unique(message.tool_calls.iter_mut());
        }
        let calls = message.tool_calls.clone();
        let message = match answer {
            Some(_) => self.answer_message(purpose, message),
            None => Message::assistant(message),
        };
        self.push(if is_written { message_metadata::mark_written_calls(message) } else { message });
        let is_exhaustive = self.head.config.end_strategy == EndStrategy::Exhaustive && !must_answer;
        let mut limit = None;
        if others > 0 && (answer.is_none() || is_exhaustive) {
            self.head.repeated_calls = self.count_repetitions(calls.len(), step.map(|step| step.tools));
            limit = self.count_calls(purpose, others, step.and_then(|step| step.budget));
        }
        if let Some(answer) = answer {
            close_unused(
                &mut plans,
                answer,
                match limit {
                    Some(limit) => Some(format!("not executed: {limit}")),
                    None if is_exhaustive => None,
                    None => Some("not executed, because the answer was given in the same reply".to_owned()),
                },
            );
            limit = None;
        }
        let calls = self.open_calls(calls, plans);
        match limit {
            None => (State::CallingTools(Batch { calls, purpose, is_written }), Ok(())),
            Some(limit) => {
                self.record_denied(calls, limit);
                self.apply_limit_action(purpose, limit)
            }
        }
    }

    /// Plans the calls of the reply to `request`. All valid answers have the plan
    /// [`CallPlan::Answer`].
    fn plan_calls(&self, request: &SentRequest, calls: &[ToolCall]) -> Vec<CallPlan> {
        let schema = self.outputs_of(request.purpose);
        let needs_call = !request.purpose.must_answer()
            && matches!(request.tool_choice, ToolChoice::Required | ToolChoice::Tool(_));
        let plan = |call: &ToolCall| match schema.filter(|_| is_answer(call)) {
            None => CallPlan::Execute,
            Some(_) if needs_call => {
                let problem = "Call a tool first: answer when you know what it returns.";
                CallPlan::Fail(FailureKind::Denied, problem.to_owned())
            }
            Some(schema) => match self.parse_answer_call(schema, call) {
                Ok(_) => CallPlan::Answer,
                Err(problem) => CallPlan::Fail(FailureKind::InvalidArguments, problem),
            },
        };
        calls.iter().map(plan).collect()
    }

    /// Parses the arguments of `call`, a call to `finish`. The error text is for the model.
    pub(super) fn parse_answer_call(&self, schema: &Schema, call: &ToolCall) -> Result<Value, String> {
        let content = match call.arguments.value() {
            Ok(value) => Content::Json { value: value.clone() },
            Err(_) => Content::text(call.arguments.to_string()),
        };
        parse_answer::parse_answer(&self.head.config, schema, &[content])
    }

    /// Creates the batch of `calls`. Stores a failure for each call with [`CallPlan::Fail`].
    fn open_calls(&self, calls: Vec<ToolCall>, plans: Vec<CallPlan>) -> OpenCalls {
        let now = self.head.now();
        let mut open = OpenCalls::new(calls);
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
}

/// Closes all calls that are not used beside the answer at the index `answer`: further answers, and
/// the other calls if `why` is the reason for not executing them.
fn close_unused(plans: &mut [CallPlan], answer: usize, why: Option<String>) {
    for (index, plan) in plans.iter_mut().enumerate() {
        let why = match (&plan, &why) {
            (CallPlan::Answer, _) if index != answer => {
                "not used, because another answer was given in the same reply".to_owned()
            }
            (CallPlan::Execute, Some(why)) => why.clone(),
            _ => continue,
        };
        *plan = CallPlan::Fail(FailureKind::Denied, why);
    }
}

/// Returns `true` if `call` gives the outputs, provided that the reply can contain them. Otherwise,
/// it is a call to a tool with this name.
pub(super) fn is_answer(call: &ToolCall) -> bool {
    call.name == FINISH
}
