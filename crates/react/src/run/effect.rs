//! The effects that a run requests, and the outcomes that its driver reports.

use std::{collections::BTreeMap, sync::Arc};

use haft_core::{
    Message, ToolCall, ToolResult,
    agent::{AgentStep, Limit, RunAnswer},
    call::{Decision, PendingCall, ResumedCall},
    message::TranscriptView,
    model::{ChatResponse, ModelError, ToolChoice},
    pipeline::{Batch, BatchCall},
    schema::Repair,
    tool::{FailedAttempts, RunContext},
    toolset::ToolList,
    usage::Usage,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Delivery, RunConfig, data::is_default};
use crate::{dialect::Reply, entries::SavedEntries, hook::Judgement, output::Output};

/// An action that a run requests from its driver.
/// [`ReactAgent::perform`](crate::ReactAgent::perform) performs it and returns its [`Outcome`]s.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Effect {
    /// List the tools and run the hooks of the next model request. The outcome is
    /// [`Outcome::Prepared`].
    Prepare,
    /// Send the next model request. Its messages are [`Run::view`](super::Run::view), and its
    /// answer schema is [`Run::answer_schema`](super::Run::answer_schema). The outcome is
    /// [`Outcome::Replied`].
    Chat,
    /// Execute these calls. Each call has an outcome of its own, in any order:
    /// [`Outcome::Called`] or [`Outcome::Pending`].
    Call(CallBatch),
    /// Judge this data with the hooks, before the run uses it. Only requested for the data named in
    /// [`RunConfig::checks`]. The outcome is [`Outcome::Checked`].
    Check(Check),
    /// Summarize these messages, because the context is too long. The outcome is
    /// [`Outcome::Compacted`].
    Compact(TranscriptView),
    /// Run the hook of this hand-off, and report the next agent with [`Outcome::HandedOff`].
    Handoff(HandoffCall),
    /// Wait for a decision about at least one of these calls. The outcome is [`Outcome::Decided`].
    Wait(Vec<PendingCall>),
    /// Stop driving the run. It has ended, and this is its answer.
    Done(Box<RunAnswer>),
}

/// The calls of one reply that can be executed now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallBatch {
    /// The calls, in the order of the reply. Calls that do not
    /// [conflict](haft_core::tool::TouchFn) can be executed in parallel.
    pub calls: Vec<ReadyCall>,
    /// The calls of the same reply that wait for a decision, each with the number of
    /// [`calls`](Self::calls) before it. They are not executed, and postpone the calls that
    /// conflict with them.
    pub waiting: Vec<(usize, ToolCall)>,
}

/// A call that can be executed now.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadyCall {
    /// The call. Its arguments include the changes of hooks.
    pub call: ToolCall,
    /// The pending state and the decision, if the call was suspended.
    pub resumed: Option<ResumedCall>,
    /// The failed attempts of the tool since its last success.
    pub failed_attempts: FailedAttempts,
    /// The reason if the call must not be executed, because its tool has a [maximum
    /// number](haft_core::tool::ToolPolicy::max_calls) of calls. The call then fails with this
    /// text.
    pub denied: Option<String>,
    /// `true` if the call is returned for the first time: it was not postponed, suspended or
    /// interrupted before.
    pub is_new: bool,
    /// `true` if hooks have judged the arguments. They must not change any more.
    pub is_checked: bool,
    /// The properties of the tool that the model saw.
    pub tool: ToolSnapshot,
}

/// Data that the hooks judge before the run uses it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Check {
    /// New messages of the user, before the first request that contains them.
    Input(Vec<Arc<Message>>),
    /// Calls of a reply, before one of them is executed.
    Calls(Vec<ReadyCall>),
    /// All calls of a reply with their results, before the next request.
    Results(Arc<[AgentStep]>),
    /// The answer, before the run ends.
    Answer(Box<Output>),
}

/// A hand-off that a tool call of the model requested.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HandoffCall {
    /// The name of the called tool, see [`RunConfig::handoff_tools`].
    pub tool: String,
    /// The id of the call.
    pub call_id: String,
    /// The structured output of the call: the typed arguments of the hand-off, if it has any.
    pub arguments: Option<Value>,
}

/// What a driver reports to a run with [`Run::apply`](super::Run::apply).
///
/// An outcome is plain data: a driver can write it to a journal, and apply it again to a run at the
/// same point.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// The next model request is prepared.
    Prepared(PreparedRequest),
    /// The reply of the model, or its error.
    Replied(Result<Box<ModelReply>, ModelError>),
    /// Tokens and cost of the reply to the current request, before the reply itself is reported.
    /// Optional: without it, [`Replied`](Self::Replied) counts its usage.
    Used(Usage),
    /// The verdicts of the hooks about the data of an [`Effect::Check`].
    Checked(CheckVerdict),
    /// The result of a call.
    Called(Box<FinishedCall>),
    /// A call waits for a decision. A [postponed](haft_core::call::PendingKind::Postponed) call is
    /// executed again after the next decision about another call.
    Pending(Box<PendingCall>),
    /// The use of the calls by nested runs, such as agents used as tools.
    Nested(NestedUsage),
    /// The summary that [`Effect::Compact`] requested, or the error of the model.
    Compacted(Result<Box<ChatResponse>, ModelError>),
    /// The agent that continues the run after a hand-off.
    HandedOff(Box<NextAgent>),
    /// The decision about a waiting call. `id` can also be the id of a call nested in it, for
    /// example in the run of an agent used as a tool.
    Decided {
        /// The id of the call.
        id: String,
        /// The decision.
        decision: Decision,
    },
    /// The time of the run is up, or a limit of an enclosing run is reached. The effect is
    /// abandoned: a request in flight is counted as failed, and calls without an outcome fail.
    LimitReached(Limit),
    /// A judgement of hooks that belongs to no other outcome, for example about pushed calls. Its
    /// verdict is [`Pass`](crate::Verdict::Pass) or [`End`](crate::Verdict::End).
    Judged(Judgement),
    /// A new message for the model, see [`Run::enqueue`](super::Run::enqueue). While a request is
    /// prepared, it is prepared again.
    Enqueued {
        /// The message, of a user or the system.
        message: Box<Message>,
        /// The time of its delivery.
        delivery: Delivery,
    },
    /// The saved [entries](crate::entries::Entries) of all extensions have changed.
    Entries(SavedEntries),
}

/// The outcome of [`Effect::Prepare`]: the properties of the request that the run needs to process
/// the reply. The default is a request without tools.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PreparedRequest {
    /// The tool choice of the request.
    #[serde(skip_serializing_if = "super::is_auto")]
    pub tool_choice: ToolChoice,
    /// `true` if the request has tools.
    pub has_tools: bool,
    /// `true` if the dialect ends the steps by a call to [`FINISH`](crate::dialect::FINISH), and
    /// the declared outputs are requested afterwards. The call then has no arguments.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub has_bare_finish: bool,
    /// `true` if the dialect has a [fallback](crate::Dialect::fallback).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub has_fallback: bool,
    /// The judgement of the hooks about the request.
    #[serde(skip_serializing_if = "is_default")]
    pub judgement: Judgement,
}

/// A reply of the model, with the properties of the tools that it calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelReply {
    /// The reply as read by the dialect.
    pub reply: Reply,
    /// The called tools that the request offered, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, ToolSnapshot>,
    /// The judgement of the hooks about the reply.
    #[serde(default, skip_serializing_if = "is_default")]
    pub judgement: Judgement,
}

/// The properties of a called tool that a run needs. A call is executed only if the tool still has
/// the same [fingerprint](haft_core::ToolDefinition::fingerprint).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ToolSnapshot {
    /// The fingerprint of the definition that the model saw. Empty if the model called an unknown
    /// tool.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub fingerprint: String,
    /// See [`ToolPolicy::retries`](haft_core::tool::ToolPolicy::retries).
    pub retries: u32,
    /// See [`ToolPolicy::max_calls`](haft_core::tool::ToolPolicy::max_calls).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_calls: Option<u32>,
    /// See [`ToolPolicy::idempotent`](haft_core::tool::ToolPolicy::idempotent).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub idempotent: bool,
    /// See [`ToolPolicy::repeatable`](haft_core::tool::ToolPolicy::repeatable).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub repeatable: bool,
}

/// The judgement of the hooks about the data of a [`Check`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CheckVerdict {
    /// The judgement about [`Check::Input`].
    Input(Judgement<Vec<Message>>),
    /// The judgements about [`Check::Calls`], each with the id of its call.
    Calls(Vec<(String, Judgement<NewArguments>)>),
    /// The judgement about [`Check::Results`]. A replacement is the answer of the run.
    Results(Judgement<Output>),
    /// The judgement about [`Check::Answer`].
    Answer(Judgement<Output>),
}

/// The new arguments of a call that a hook replaced or a [repair
/// hook](haft_core::pipeline::RepairHook) repaired.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewArguments {
    /// The arguments.
    pub arguments: Value,
    /// The repairs of the received arguments. The result of the call lists them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repairs: Vec<Repair>,
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FinishedCall {
    /// The id of the call.
    pub id: String,
    /// The result. The run sets its id and its name to those of the call.
    pub result: ToolResult,
    /// The judgement of the hooks about the result. Its verdict is [`Pass`](crate::Verdict::Pass), as
    /// `result` already contains the changes of the hooks, or [`End`](crate::Verdict::End).
    #[serde(default, skip_serializing_if = "is_default")]
    pub judgement: Judgement,
}

/// The requests, calls and tokens of nested runs, which count towards the limits of the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NestedUsage {
    /// The tokens and the cost.
    pub usage: Usage,
    /// The number of model requests without a reported usage.
    pub requests: u32,
    /// The number of tool calls.
    pub calls: u32,
    /// The calls that calls of this run have pushed to tools with a
    /// [maximum](haft_core::tool::ToolPolicy::max_calls), by tool name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub limited_calls: BTreeMap<String, u32>,
    /// The limit of this run that has forbidden calls of a nested run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
}

/// The agent that continues a run after a [hand-off](Effect::Handoff).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NextAgent {
    /// The name of the agent.
    pub name: String,
    /// The configuration of the agent. The limits of the run and the overrides of its input stay in
    /// effect.
    pub config: RunConfig,
    /// The reason for the hand-off. It is announced to the model of the agent.
    pub reason: String,
    /// `true` if the steps that the run has made so far are not sent to the agent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hides_steps: bool,
}

impl CallBatch {
    /// Converts the calls to a batch of a pipeline, with the tools and the context of the calls.
    pub(crate) fn for_pipeline(self, tools: &ToolList, run_context: Arc<RunContext>) -> Batch {
        let calls = self.calls.into_iter().map(|ready| {
            let ReadyCall { call, resumed, failed_attempts, denied, is_checked, .. } = ready;
            BatchCall { resumed, failed_attempts, denied, is_repaired: is_checked, ..BatchCall::new(call) }
        });
        Batch { run_context, suspended: self.waiting, ..Batch::new(tools.clone(), calls) }
    }
}

impl ToolSnapshot {
    /// Returns the properties of the tools of `calls` that are in `tools`, by name.
    pub(crate) fn of_calls(calls: &[ToolCall], tools: &ToolList) -> BTreeMap<String, Self> {
        let called = calls.iter().filter_map(|call| {
            let definition = tools.get(&call.name)?.definition();
            let policy = definition.policy();
            let tool = Self {
                fingerprint: definition.fingerprint(),
                retries: policy.retries,
                max_calls: policy.max_calls,
                idempotent: policy.idempotent,
                repeatable: policy.repeatable,
            };
            Some((call.name.clone(), tool))
        });
        called.collect()
    }
}

impl Outcome {
    /// Creates the outcome of a model request with the reply `reply` that calls no tool with a
    /// special policy.
    pub fn replied(reply: impl Into<Reply>) -> Self {
        let (reply, tools) = (reply.into(), BTreeMap::new());
        Self::Replied(Ok(Box::new(ModelReply { reply, tools, judgement: Judgement::default() })))
    }

    /// Creates the outcome of a call with the result `result`.
    pub fn called(id: impl Into<String>, result: ToolResult) -> Self {
        Self::Called(Box::new(FinishedCall { id: id.into(), result, judgement: Judgement::default() }))
    }

    /// Returns the name of the variant, for error texts.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Prepared(_) => "Prepared",
            Self::Replied(_) => "Replied",
            Self::Used(_) => "Used",
            Self::Checked(_) => "Checked",
            Self::Called(_) => "Called",
            Self::Pending(_) => "Pending",
            Self::Nested(_) => "Nested",
            Self::Compacted(_) => "Compacted",
            Self::HandedOff(_) => "HandedOff",
            Self::Decided { .. } => "Decided",
            Self::LimitReached(_) => "LimitReached",
            Self::Judged(_) => "Judged",
            Self::Enqueued { .. } => "Enqueued",
            Self::Entries(_) => "Entries",
        }
    }
}
