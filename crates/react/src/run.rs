//! The run: the agent loop as data, without I/O.

mod begin;
mod calls;
mod compact;
mod config;
mod context;
mod effect;
mod error;
mod guard;
mod hear;
mod ids;
mod inputs;
mod limits;
mod mark;
mod outputs;
mod park;
mod pieces;
mod saved;
mod steps;

use std::{collections::BTreeMap, mem, sync::Arc};

use haft_core::{
    AgentError, AgentErrorKind, Answer, Content, FailureKind, Limit, Message, MessageBody, ModelError,
    PendingCall, RunAnswer, RunInput, RunLimits, RunStart, Schema, StopReason, Timestamp, ToolCall, ToolList,
    ToolResult, Transcript, Usage,
};
use serde::{Deserialize, Serialize};

use crate::{Prompt, Reply};
use calls::OpenCalls;
use context::Shown;
use ids::CallIds;

pub(crate) use begin::{conversation, date};
pub use config::{AtLimit, OutputsBy, RunConfig};
pub use context::ContextConfig;
pub use effect::{CallBatch, Effect, Step};
pub use error::RunError;
pub(crate) use mark::{clarification, is_clarification, summarised};
pub use mark::{is_hint, is_unusable};
pub(crate) use pieces::is_said;
pub(crate) use steps::{arguments, steps, thought};

/// One run of an agent: a state machine that says which [`Effect`] it wants and is told what came of it.
///
/// It is data: no clock, no randomness, no handle. What cannot be saved is lent to [`next`](Self::next) as a
/// [`Step`]. So a run can be saved between any two steps, moved to another process, replayed, or stepped by code
/// without a runtime. As JSON it names its format; a newer format is refused.
///
/// An error of [`next`](Self::next) ends the run for its driver, with every call of the transcript closed. The
/// state stays one that can go on: whoever raises a limit or finds the model's server again may call `next` again.
///
/// # Examples
///
/// ```
/// use haft_core::{AssistantMessage, ChatResponse, RunInput, Timestamp, ToolCall, ToolList, ToolOutput, ToolResult};
/// use haft_react::{Dialect, Effect, NativeCalls, Run, RunConfig, Step};
///
/// let mut run = Run::new(&RunConfig::default(), RunInput::new("What is 17 plus 25?"))?;
/// let tools = ToolList::default();
/// let step = Step { tools: &tools, dialect: &NativeCalls, instructions: None, now: Timestamp::default() };
/// let call = ToolCall::new("call_1", "add", r#"{"x":17,"y":25}"#);
///
/// let Effect::Chat(_request) = run.next(&step)? else { unreachable!() };
/// let asks = AssistantMessage { tool_calls: vec![call], ..AssistantMessage::default() };
/// run.on_chat(Ok(NativeCalls.fold(ChatResponse::new(asks), None)))?;
///
/// let Effect::Call(batch) = run.next(&step)? else { unreachable!() };
/// assert_eq!(batch.calls[0].name, "add");
/// run.on_result("call_1", ToolResult::done("call_1", "add", ToolOutput::from("42")))?;
///
/// let Effect::Chat(_request) = run.next(&step)? else { unreachable!() };
/// run.on_chat(Ok(NativeCalls.fold(ChatResponse::new("It is 42."), None)))?;
///
/// let Effect::Done(answer) = run.next(&step)? else { unreachable!() };
/// assert_eq!(answer.text, "It is 42.");
/// # Ok::<(), haft_core::AgentError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    transcript: Transcript,
    head: Head,
    ids: CallIds,
}

/// What is saved of a run besides its transcript. Its size does not depend on the length of the conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Head {
    config: RunConfig,
    /// How many messages of the transcript are from before this run.
    start: usize,
    /// How many are there when its own first message is made.
    first: usize,
    /// The time of the last step.
    now: Timestamp,
    phase: Phase,
    usage: Usage,
    requests: u32,
    tool_calls: u32,
    /// How many replies in a row could not be used.
    unusable_replies: u32,
    /// How many replies in a row asked for the same calls.
    identical_calls: u32,
    /// In how many replies in a row each tool asked for another try.
    retries: BTreeMap<String, u32>,
    /// What the model is shown.
    shown: Shown,
    /// Whether the model has ended its work and is asked for the outputs.
    #[serde(default, skip_serializing_if = "is_false")]
    is_extracting: bool,
    /// Set when the model must answer: the limit that was reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_request: Option<Limit>,
}

/// Where a run is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
enum Phase {
    /// The model is to be asked.
    Asking,
    /// A request was handed out.
    Asked,
    /// There is too much for the model: what stands before this message is to be summarised.
    Compacting { to: usize },
    /// There is a reply, and nothing was done about it.
    Replied { reply: Box<Reply> },
    /// The calls of a reply are made.
    Calling { calls: OpenCalls },
    /// A limit was reached, and the model used its last request for something else than an answer.
    Exhausted { limit: Limit },
    /// There is an answer.
    Answered { stop_reason: StopReason },
    /// The run was cancelled.
    Cancelled,
}

impl Run {
    /// Begins a run, or takes up a parked one with the answers that came. The limits of `input`, where it has some,
    /// take the place of the configured ones; its context is for the driver.
    ///
    /// # Errors
    ///
    /// Fails with [`AgentErrorKind::InvalidInput`] when there is nothing to say, when calls of the transcript have
    /// no result yet, or when what was parked cannot be taken up with these answers. The conversation is in the error;
    /// what was parked is as good as before, for whoever kept a clone of it.
    pub fn new(config: &RunConfig, input: RunInput) -> Result<Self, AgentError> {
        let mut run = match input.start {
            RunStart::New { messages, transcript } => Self::begin(config.clone(), messages, &transcript)?,
            RunStart::Resume { parked, answers } => Self::resume(parked, answers)?,
        };
        if let Some(limits) = input.limits {
            run.set_limits(limits);
        }
        Ok(run)
    }

    fn begin(config: RunConfig, new: Vec<Message>, earlier: &Transcript) -> Result<Self, AgentError> {
        let start = earlier.len();
        let transcript = conversation(earlier, new)?;
        inputs::check(config.inputs.as_ref(), transcript.messages(), start)
            .map_err(|kind| begin::refused(kind, earlier))?;
        let ids = CallIds::of(transcript.messages());
        let head = Head::new(config, transcript.messages(), start);
        Ok(Self { transcript, head, ids })
    }

    /// The conversation so far. While calls are open their results are not in it.
    pub fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    /// What the run cost so far.
    pub fn usage(&self) -> Usage {
        self.head.usage
    }

    /// How often the model was asked for a step. Summaries are asked for beside that, and count for the limit too.
    pub fn requests(&self) -> u32 {
        self.head.requests
    }

    /// How the run behaves.
    pub fn config(&self) -> &RunConfig {
        &self.head.config
    }

    /// The form of the answer that the next reply may give, where it is data: what a dialect is told of when it
    /// [folds](crate::Dialect::fold) the reply.
    pub fn outputs(&self) -> Option<&Schema> {
        let Head { config, .. } = &self.head;
        let is_asked = config.outputs_by == OutputsBy::Finish || self.head.must_answer();
        config.outputs.as_ref().filter(|_| is_asked)
    }

    /// Sets how much the run may use from now on. A run that had used up its limits goes on.
    pub fn set_limits(&mut self, limits: RunLimits) {
        self.head.config.limits = limits;
        self.head.last_request = None;
        if let Phase::Exhausted { .. } = self.head.phase {
            self.head.phase = Phase::Asking;
        }
    }

    /// Whether the next effect is a request, as far as is known: what it offers should be listed afresh. Otherwise the
    /// snapshot that the model saw is to be kept for its calls.
    ///
    /// A driver that asks this when it has [told of a reply](Self::on_chat) or of the last result does not ask its sources
    /// in vain.
    pub fn is_asking(&self) -> bool {
        match &self.head.phase {
            Phase::Asking => true,
            Phase::Replied { reply } => reply.problem.is_some() || reply.message.is_empty(),
            Phase::Calling { calls } => calls.are_finished(),
            _ => false,
        }
    }

    /// Goes on to the next effect.
    ///
    /// For a request, `step.tools` should be [listed afresh](Self::is_asking); for the calls of a reply it should be the
    /// snapshot that the model saw.
    ///
    /// # Errors
    ///
    /// Fails when the run ends without an answer, and with [`AgentErrorKind::InvalidInput`] when it is not told of
    /// the last effect yet.
    pub fn next(&mut self, step: &Step<'_>) -> Result<Effect, AgentErrorKind> {
        self.head.now = step.now;
        match &self.head.phase {
            Phase::Asking => self.ask(step),
            Phase::Asked => Err(RunError::RequestUnderWay.into()),
            Phase::Compacting { .. } => self.compact().map_or_else(|| self.ask(step), Ok),
            Phase::Replied { .. } => {
                self.hear()?;
                self.next(step)
            }
            Phase::Calling { .. } => match self.call(step.tools)? {
                Some(effect) => Ok(effect),
                None => self.next(step),
            },
            Phase::Exhausted { limit } => Err(AgentErrorKind::LimitReached(*limit)),
            Phase::Answered { stop_reason } => Ok(Effect::Done(Box::new(self.answer(*stop_reason)))),
            Phase::Cancelled => Err(AgentErrorKind::Cancelled),
        }
    }

    /// Tells what the model replied, as the dialect [folds](crate::Dialect::fold) it.
    ///
    /// A request that failed can be made again: the run is where it was before it. An empty or unreadable reply is
    /// tolerated as often as [`RunConfig::unusable_replies`] says.
    ///
    /// # Errors
    ///
    /// Gives the model's error back where the run cannot tolerate it.
    pub fn on_chat(&mut self, reply: Result<Reply, ModelError>) -> Result<(), AgentErrorKind> {
        if self.head.phase != Phase::Asked {
            return Err(RunError::NoRequest.into());
        }
        self.head.phase = Phase::Asking;
        match reply {
            Ok(reply) => {
                let usage = Usage { requests: reply.usage.requests.max(1), ..reply.usage };
                self.head.usage += usage;
                self.note_tokens(usage.total_tokens());
                self.head.phase = Phase::Replied { reply: Box::new(reply) };
                Ok(())
            }
            Err(error) => {
                self.head.usage += Usage::of_request(0, 0);
                match error {
                    ModelError::EmptyResponse | ModelError::InvalidResponse(_) => {
                        self.tolerate(|| error.into())
                    }
                    ModelError::ContextTooLong(_) => self.overflow(error),
                    error => Err(error.into()),
                }
            }
        }
    }

    /// Tells what came of a call that was handed out. Returns the result as it is recorded, which may say more.
    ///
    /// # Errors
    ///
    /// Fails when no call of this id is under way.
    pub fn on_result(&mut self, id: &str, result: ToolResult) -> Result<ToolResult, RunError> {
        let Phase::Calling { calls } = &mut self.head.phase else {
            return Err(RunError::NotUnderWay(id.to_owned()));
        };
        let (call, budget) = calls.under_way_as(id)?;
        // The id and the name are those of the transcript, whatever the driver says.
        let mut result = ToolResult { call_id: call.id.clone(), name: call.name.clone(), ..result };
        let used = self.head.retries.get(&call.name).copied().unwrap_or_default();
        guard::bound_retry(&mut result, used, budget);
        if self.head.config.identical_calls == Some(self.head.identical_calls) {
            guard::tell_of_repetition(&mut result, self.head.identical_calls);
        }
        calls.finish(id, result.clone())?;
        Ok(result)
    }

    /// Tells that a call that was handed out must wait.
    ///
    /// # Errors
    ///
    /// Fails when no call of this id is under way.
    pub fn on_pending(&mut self, pending: PendingCall) -> Result<(), RunError> {
        let PendingCall { call, pending } = pending;
        match &mut self.head.phase {
            Phase::Calling { calls } => calls.suspend(&call.id, pending),
            _ => Err(RunError::NotUnderWay(call.id)),
        }
    }

    /// Gives a call that waits its answer. Answers may come one by one: the calls that have theirs go on, the
    /// others wait on.
    ///
    /// # Errors
    ///
    /// Fails when no call of this id waits, or when it waits for something else.
    pub fn on_answer(&mut self, id: &str, answer: Answer) -> Result<(), RunError> {
        match &mut self.head.phase {
            Phase::Calling { calls } => calls.answer(id, answer),
            _ => Err(RunError::NotWaiting { id: id.to_owned(), waiting: "none".to_owned() }),
        }
    }

    /// Cancels the run: every open call gets a result, so that the conversation can go on in another run.
    pub fn cancel(&mut self) {
        // What is wrong with the reply matters no more; its calls must be in the transcript, and be closed.
        let _ = self.hear();
        self.close(FailureKind::Cancelled, "cancelled");
        self.head.phase = Phase::Cancelled;
    }

    /// The calls that were handed out and have no result: after a load, those whose outcome nobody knows.
    pub fn interrupted(&self) -> Vec<ToolCall> {
        match &self.head.phase {
            Phase::Calling { calls } => calls.under_way().cloned().collect(),
            _ => Vec::new(),
        }
    }

    /// Takes up a run whose driver is gone: a request that was under way is made again, [interrupted
    /// calls](Self::interrupted) of idempotent tools too, and the others are
    /// [unconfirmed](FailureKind::Unconfirmed).
    pub fn recover(&mut self, tools: &ToolList) {
        let now = self.head.now;
        let idempotent =
            |call: &ToolCall| tools.get(&call.name).is_some_and(|tool| tool.definition().policy().idempotent);
        match &mut self.head.phase {
            Phase::Calling { calls } => calls.recover(now, idempotent),
            Phase::Asked => self.head.phase = Phase::Asking,
            _ => {}
        }
    }

    fn ask(&mut self, step: &Step<'_>) -> Result<Effect, AgentErrorKind> {
        if let (None, Some(limit)) = (self.head.last_request, self.exhausted()) {
            self.reach(limit)?;
        }
        if let Some(compaction) = self.keep_within_tokens() {
            return Ok(compaction);
        }
        let request = step.dialect.request(&Prompt {
            messages: self.view(),
            tools: step.tools,
            instructions: step.instructions,
            outputs: self.outputs(),
            must_answer: self.head.must_answer(),
            settings: &self.head.config.settings,
        });
        self.head.requests += 1;
        self.head.phase = Phase::Asked;
        Ok(Effect::Chat(Box::new(request)))
    }

    /// Goes on with the calls of a reply; no effect when all are done.
    fn call(&mut self, tools: &ToolList) -> Result<Option<Effect>, AgentErrorKind> {
        let Head { phase: Phase::Calling { calls }, retries, .. } = &mut self.head else { return Ok(None) };
        let under_way: Vec<_> = calls.under_way().map(|call| call.id.as_str()).collect();
        if !under_way.is_empty() {
            return Err(RunError::CallsUnderWay(under_way.join(", ")).into());
        }
        if let Some(fatal) = calls.fatal() {
            let (tool, message) = (fatal.name.clone(), fatal.model_text().into_owned());
            self.close(FailureKind::Cancelled, "not run: the run was stopped");
            return Err(AgentErrorKind::Tool { tool, message });
        }
        let batch = calls.hand_out(tools);
        if !batch.calls.is_empty() {
            return Ok(Some(Effect::Call(batch)));
        }
        let pending = calls.pending();
        if !pending.is_empty() {
            return Ok(Some(Effect::Wait(pending)));
        }
        guard::count_retries(calls.results(), retries);
        self.close(FailureKind::Cancelled, "cancelled");
        Ok(None)
    }

    /// Puts the results of all open calls into the transcript, in call order. Calls without one get one that says
    /// why.
    fn close(&mut self, kind: FailureKind, why: &str) {
        let Phase::Calling { calls } = mem::replace(&mut self.head.phase, Phase::Asking) else { return };
        let now = self.head.now;
        self.transcript
            .extend(calls.close(kind, why, now).map(|result| Message::tool(result).at(now).into()));
    }

    fn answer(&self, stop_reason: StopReason) -> RunAnswer {
        let (messages, head) = (self.transcript.messages(), &self.head);
        let (text, outputs) = match messages.last().map(|message| message.body()) {
            Some(MessageBody::Assistant(last)) => match (&last.refusal, last.content.as_slice()) {
                (Some(refusal), _) => (refusal.clone(), None),
                (None, [Content::Json { value }]) if head.config.outputs.is_some() => {
                    (last.text(), value.as_object())
                }
                (None, _) => (last.text(), None),
            },
            _ => (String::new(), None),
        };
        RunAnswer {
            text,
            outputs: outputs.cloned().unwrap_or_default(),
            steps: steps(messages.get(head.start..).unwrap_or_default()),
            usage: head.usage,
            stop_reason,
            transcript: self.transcript.clone(),
        }
    }

    fn push(&mut self, message: Message) {
        self.transcript.push(message.at(self.head.now));
    }
}

impl Head {
    fn new(config: RunConfig, messages: &[Arc<Message>], start: usize) -> Self {
        Self {
            config,
            start,
            first: messages.len(),
            now: Timestamp::default(),
            phase: Phase::Asking,
            usage: Usage::default(),
            requests: 0,
            tool_calls: 0,
            unusable_replies: 0,
            identical_calls: 0,
            retries: BTreeMap::new(),
            shown: Shown::of(messages, start),
            is_extracting: false,
            last_request: None,
        }
    }

    /// Whether the next reply must be the answer.
    fn must_answer(&self) -> bool {
        self.is_extracting || self.last_request.is_some()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives references")]
fn is_false(value: &bool) -> bool {
    !value
}
