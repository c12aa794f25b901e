//! What a reply leads to, decided without changing the run.

use haft_core::{
    Schema, ToolCall,
    agent::AgentErrorKind,
    call::FailureKind,
    content::Content,
    message::AssistantMessage,
    model::{FinishReason, ModelError, ToolChoice},
};
use serde_json::Value;

use crate::{
    dialect::{FINISH, Reply},
    output::parse::parse_answer,
    run::{EndStrategy, Run, data::Purpose, state::Request},
};

/// What a reply leads to.
pub(super) enum Plan {
    /// The run fails with this error, and the reply is not recorded.
    Fail(AgentErrorKind),
    /// The model reads this text and replies again.
    Reject(String),
    /// The model refuses the task, which ends the run.
    Refuse,
    /// The reply is the answer, with these structured outputs if the request asks for outputs.
    Answer(Option<Value>),
    /// The reply has calls.
    Calls(CallsPlan),
}

/// The handling of the calls of a reply.
pub(super) struct CallsPlan {
    /// The handling of each call, in order.
    pub(super) calls: Vec<CallPlan>,
    /// The index of the call that gives the answer.
    pub(super) answer: Option<usize>,
}

/// The handling of a call.
pub(super) enum CallPlan {
    Execute,
    /// The call gives the answer of the run.
    Answer,
    /// The call gets a failure without being executed.
    Fail(FailureKind, String),
}

impl Run {
    /// Plans the handling of `reply`, the reply to `request`.
    pub(super) fn plan(&self, request: &Request, reply: &Reply) -> Plan {
        let message = &reply.message;
        match reply.finish_reason {
            // The error contains the truncated reply, and the transcript does not contain it.
            FinishReason::Length => return Plan::Fail(truncated_error(message.clone())),
            FinishReason::ContentFilter => {
                return Plan::Fail(AgentErrorKind::ContentFiltered { reason: None });
            }
            _ => {}
        }
        if let Some(problem) = &reply.problem {
            return Plan::Reject(problem.clone());
        }
        if message.refusal.is_some() {
            return Plan::Refuse;
        }
        if self.announces_missing_call(request, reply) {
            let problem = "Your reply announced a tool call and had none. Make the call, or give the answer.";
            return Plan::Reject(problem.to_owned());
        }
        let has_answer = self.requested_outputs().is_some() && message.tool_calls.iter().any(is_answer);
        let can_answer = has_answer && request.tool_choice == ToolChoice::None;
        if let Some(problem) = self.tool_choice_problem(request, message).filter(|_| !can_answer) {
            return Plan::Reject(problem);
        }
        if message.tool_calls.is_empty() {
            return self.plan_answer(message);
        }
        if !has_answer && matches!(self.data.purpose, Purpose::Outputs { .. }) {
            return Plan::Reject("No more calls can be made. Give the outputs.".to_owned());
        }
        self.plan_calls(request, &message.tool_calls)
    }

    /// Returns `true` if the finish reason of `reply` announces a call, and the reply has none.
    /// Some servers drop a call that they cannot parse, and return the text before it. Gateways
    /// that emulate a response format by a tool announce a call to a request without tools.
    fn announces_missing_call(&self, request: &Request, reply: &Reply) -> bool {
        !self.must_answer()
            && request.has_tools
            && request.tool_choice != ToolChoice::None
            && reply.finish_reason == FinishReason::ToolCalls
            && reply.message.tool_calls.is_empty()
    }

    /// Returns an error text for the model if `reply` ignores the tool choice of `request`. Some
    /// servers do not enforce the tool choice.
    fn tool_choice_problem(&self, request: &Request, reply: &AssistantMessage) -> Option<String> {
        let calls = &reply.tool_calls;
        match &request.tool_choice {
            _ if self.must_answer() => None,
            ToolChoice::None if !calls.is_empty() => Some("No calls can be made now: answer.".to_owned()),
            ToolChoice::Required if calls.is_empty() => {
                Some("Call a tool first: answer when you know what it returns.".to_owned())
            }
            ToolChoice::Tool(name) if !calls.iter().any(|call| call.name == name.as_str()) => {
                Some(format!("Call \"{name}\" first: go on when you know what it returns."))
            }
            _ => None,
        }
    }

    /// Plans a reply without calls: it is the answer, unless it does not fit the output schema.
    fn plan_answer(&self, message: &AssistantMessage) -> Plan {
        match self.requested_outputs() {
            None => Plan::Answer(None),
            Some(schema) => match parse_answer(&self.data.config, schema, &message.content) {
                Ok(outputs) => Plan::Answer(Some(outputs)),
                Err(problem) => Plan::Reject(problem),
            },
        }
    }

    /// Plans the calls of the reply to `request`. The first valid answer ends the run. Without a
    /// valid answer, the other calls are executed, and the model reads the errors of its answers.
    fn plan_calls(&self, request: &Request, calls: &[ToolCall]) -> Plan {
        let mut plans: Vec<_> = calls.iter().map(|call| self.plan_call(request, call)).collect();
        let answer = plans.iter().position(|plan| matches!(plan, CallPlan::Answer));
        let has_calls = plans.iter().any(|plan| matches!(plan, CallPlan::Execute));
        let must_answer = self.must_answer() || request.tool_choice == ToolChoice::None;
        if answer.is_none() && (!has_calls || (must_answer && self.data.purpose.limit().is_none())) {
            let problem = plans.into_iter().find_map(|plan| match plan {
                CallPlan::Fail(_, problem) => Some(problem),
                _ => None,
            });
            return Plan::Reject(problem.unwrap_or_default());
        }
        self.deny_further_handoffs(calls, &mut plans);
        if let Some(answer) = answer {
            let executes = self.data.config.end_strategy == EndStrategy::Exhaustive && !must_answer;
            close_unused(&mut plans, answer, executes);
        }
        Plan::Calls(CallsPlan { calls: plans, answer })
    }

    fn plan_call(&self, request: &Request, call: &ToolCall) -> CallPlan {
        let Some(schema) = self.requested_outputs().filter(|_| is_answer(call)) else {
            return CallPlan::Execute;
        };
        if !self.must_answer() && matches!(request.tool_choice, ToolChoice::Required | ToolChoice::Tool(_)) {
            let problem = "Call a tool first: answer when you know what it returns.";
            return CallPlan::Fail(FailureKind::Denied, problem.to_owned());
        }
        match self.parse_answer_call(schema, call) {
            Ok(_) => CallPlan::Answer,
            Err(problem) => CallPlan::Fail(FailureKind::InvalidArguments, problem),
        }
    }

    /// Parses the arguments of `call`, a call to `finish`. The error text is for the model.
    pub(crate) fn parse_answer_call(&self, schema: &Schema, call: &ToolCall) -> Result<Value, String> {
        let content = match call.arguments.value() {
            Ok(value) => Content::Json { value: value.clone() },
            Err(_) => Content::text(call.arguments.to_string()),
        };
        parse_answer(&self.data.config, schema, &[content])
    }

    /// Denies hand-offs after the first one of the reply, and all hand-offs if the run has made the
    /// maximum number.
    fn deny_further_handoffs(&self, calls: &[ToolCall], plans: &mut [CallPlan]) {
        let (config, made) = (&self.data.config, self.data.counts.handoffs);
        let is_handoff = |call: &ToolCall| config.handoff_tools.contains(&call.name);
        let mut first: Option<&str> = None;
        for (call, plan) in calls.iter().zip(plans).filter(|(call, _)| is_handoff(call)) {
            let problem = match first {
                _ if made >= config.max_handoffs => format!(
                    "denied: the conversation was handed off {made} times for this question, which is the most: answer yourself"
                ),
                None => {
                    first = Some(&call.name);
                    continue;
                }
                Some(first) => format!("denied: this reply hands off the conversation by {first:?} already"),
            };
            *plan = CallPlan::Fail(FailureKind::Denied, problem);
        }
    }
}

/// Closes all calls that are not used beside the answer at the index `answer`: further answers, and
/// the other calls unless the run `executes` them.
fn close_unused(plans: &mut [CallPlan], answer: usize, executes: bool) {
    for (index, plan) in plans.iter_mut().enumerate() {
        let why = match plan {
            CallPlan::Answer if index != answer => {
                "not used, because another answer was given in the same reply"
            }
            CallPlan::Execute if !executes => "not executed, because the answer was given in the same reply",
            _ => continue,
        };
        *plan = CallPlan::Fail(FailureKind::Denied, why.to_owned());
    }
}

/// Returns `true` if `call` gives the outputs, provided that the reply can contain them. Otherwise,
/// it is a call to a tool with this name.
pub(crate) fn is_answer(call: &ToolCall) -> bool {
    call.name == FINISH
}

fn truncated_error(partial: AssistantMessage) -> AgentErrorKind {
    let reason = "it reached the limit of tokens of one reply".to_owned();
    ModelError::Truncated { reason, partial: Box::new(partial) }.into()
}
