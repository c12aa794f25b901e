//! The run: the agent loop as data, without I/O.

mod act;
mod answer;
mod ask;
mod begin;
mod calls;
mod check;
mod choice;
mod compact;
mod config;
mod context;
mod effect;
mod error;
mod guard;
mod hand;
mod head;
mod hear;
mod ids;
mod inputs;
mod limits;
mod mark;
mod migrate;
mod outputs;
mod park;
mod pieces;
pub(crate) mod queued;
mod saved;
mod steps;

use haft_core::{
    Message, RunInput, Schema, Transcript,
    agent::{AgentError, AgentErrorKind, RunLimits, RunStart},
    call::FailureKind,
    toolset::ToolList,
    usage::Usage,
};

use guard::CallsMade;
use head::{Head, Phase};
use ids::CallIds;
use queued::Placed;

pub(crate) use ask::is_broken_reply;
pub(crate) use begin::{conversation, date};
pub(crate) use calls::{OpenCalls, not_run};
pub use check::{Output, OutputError};
pub use config::{AtLimit, OutputsBy, RunConfig};
pub use context::ContextConfig;
pub use effect::{CallBatch, Effect, Step};
pub use error::RunError;
pub(crate) use mark::{
    clarification, handed_to, is_clarification, is_rejected, queue_note, queued_in, summarised,
};
pub use mark::{is_hint, is_unusable};
pub(crate) use pieces::is_said;
pub use saved::RunHead;
pub(crate) use steps::{arguments, steps, thought};

/// One run of an agent: a state machine that says which [`Effect`] it wants and is told what came of it.
///
/// It is data: no clock, no randomness, no handle. What cannot be saved is lent to [`next`](Self::next) as a
/// [`Step`]. So a run can be saved between any two steps, moved to another process, replayed, or stepped by code
/// without a runtime. As JSON it names its format; an older format is read, and a newer one refused.
///
/// An error of [`next`](Self::next) ends the run for its driver, with every call of the transcript closed. The
/// state stays one that can go on: whoever raises a limit or finds the model's server again may call `next` again.
///
/// # Examples
///
/// ```
/// use haft_core::{message::AssistantMessage, model::ChatResponse, RunInput, Timestamp, ToolCall, ToolOutput, ToolResult, toolset::ToolList};
/// use haft_react::{Dialect, Effect, NativeCalls, Run, RunConfig, Step};
///
/// let mut run = Run::new(&RunConfig::default(), RunInput::new("What is 17 plus 25?"))?;
/// let tools = ToolList::default();
/// let step = Step::new(&tools, &NativeCalls, Timestamp::default());
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
/// # Ok::<(), haft_core::agent::AgentError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    transcript: Transcript,
    head: Head,
    ids: CallIds,
    made: CallsMade,
    placed: Placed,
}

impl Run {
    /// Begins a run, or takes up a parked one with the answers that came. What `input` says of limits, of calls that the model
    /// must make and of tools that end the run takes the place of what is configured; its context is for the driver.
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
        let Head { asked, config, has_called, .. } = &mut run.head;
        *has_called &= input.tool_choice.is_none();
        asked.tool_choice = input.tool_choice.or(asked.tool_choice.take());
        asked.stop_on = input.stop_on.or(asked.stop_on.take());
        asked.overrule(config);
        Ok(run)
    }

    fn begin(config: RunConfig, new: Vec<Message>, earlier: &Transcript) -> Result<Self, AgentError> {
        let start = earlier.len();
        let transcript = conversation(earlier, new)?;
        inputs::check(config.inputs.as_ref(), transcript.messages(), start)
            .map_err(|kind| begin::refused(kind, earlier))?;
        let ids = CallIds::of(transcript.messages());
        let head = Head::new(config, transcript.messages(), start);
        Ok(Self { transcript, head, ids, made: CallsMade::default(), placed: Placed::default() })
    }

    /// The conversation so far. While calls are open their results are not in it, and neither is an answer that is being checked.
    pub fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    /// The conversation with the answer that is being checked, if there is one, as not taken.
    pub(crate) fn said(&self) -> Transcript {
        let mut transcript = self.transcript.clone();
        if let Phase::Checking { said: Some(said), .. } = &self.head.phase {
            transcript.push(mark::rejected(Message::assistant((**said).clone())).at(self.head.now));
        }
        transcript
    }

    /// What the run cost so far.
    pub fn usage(&self) -> Usage {
        self.head.usage
    }

    /// How often the model was asked for a step. Summaries are asked for beside that, and count for the limit too.
    pub fn requests(&self) -> u32 {
        self.head.requests
    }

    /// The step that what is offered is for: that of the next request, or of the one that the calls under way belong to.
    pub(crate) fn step(&self) -> u32 {
        let is_calling = matches!(self.head.phase, Phase::Calling { .. }) && !self.is_asking();
        self.head.requests.saturating_sub(u32::from(is_calling))
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
            Phase::Asking => self.head.queued.is_empty() && self.head.ended_by.is_none(),
            Phase::Replied { reply } => reply.problem.is_some() || reply.message.is_empty(),
            Phase::Calling { calls, queued: of_queue } => {
                let Head { queued, config, ended_by, .. } = &self.head;
                let ends = ended_by.is_some() || (!of_queue && calls.ending(&config.stop_on).is_some());
                calls.are_finished() && queued.is_empty() && !ends
            }
            _ => false,
        }
    }

    /// Takes what it was told into the transcript, so that all is there when the next request is decided about.
    pub(crate) fn take_in(&mut self, step: &Step<'_>) -> Result<(), AgentErrorKind> {
        self.tick(step.now);
        self.hear()?;
        if self.is_asking() { self.call(step.tools).map(drop) } else { Ok(()) }
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
        self.tick(step.now);
        match &self.head.phase {
            Phase::Asking if !self.head.queued.is_empty() => {
                self.open_queued()?;
                self.next(step)
            }
            Phase::Asking if self.head.ended_by.is_some() => {
                self.end_by_tool();
                self.next(step)
            }
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
            Phase::Checking { output, .. } => Ok(Effect::Check(output.clone())),
            Phase::Answered { stop_reason, output } => {
                let answer = self.answer(*stop_reason, output.as_deref());
                Ok(Effect::Done(Box::new(self.shown_answer(answer))))
            }
            Phase::Cancelled => Err(AgentErrorKind::Cancelled),
        }
    }

    /// Cancels the run: every open call gets a result, and an answer that is being checked is kept as one that was not taken, so
    /// that the conversation can go on in another run.
    pub fn cancel(&mut self) {
        // What is wrong with the reply matters no more; its calls must be in the transcript, and be closed.
        let _ = self.hear();
        self.reject();
        self.close(FailureKind::Cancelled, "cancelled");
        self.close_queue(FailureKind::Cancelled, "cancelled");
        self.head.phase = Phase::Cancelled;
    }

    /// Takes up a run whose driver is gone: a request that was under way is made again, [interrupted
    /// calls](Self::interrupted) of idempotent tools too, and the others are
    /// [unconfirmed](FailureKind::Unconfirmed).
    pub fn recover(&mut self, tools: &ToolList) {
        let now = self.head.now;
        self.head.is_timed = false;
        match &mut self.head.phase {
            Phase::Calling { calls, .. } => calls.recover(now, |call| queued::may_go_again(tools, call)),
            Phase::Asked => self.head.phase = Phase::Asking,
            _ => {}
        }
    }

    fn push(&mut self, message: Message) {
        self.transcript.push(message.at(self.head.now));
    }
}
