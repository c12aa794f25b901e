//! The agent loop as a state machine, the [`Run`].

mod answer;
mod calls;
mod check;
mod config;
mod data;
mod decisions;
mod effect;
mod error;
mod limits;
mod messages;
mod reply;
mod request;
mod saved;
mod state;
mod window;

use std::{collections::BTreeMap, sync::Arc};

use haft_core::{
    Message, RunEvent, RunInput, Schema, Transcript,
    agent::{AgentError, RunLimits, RunStart},
    call::{ApprovalRule, FailureKind},
    message::MessageBody,
    model::ToolChoice,
    usage::Usage,
};

use crate::{
    dialect::bare_finish_schema,
    entries::SavedEntries,
    output::input::validate_input,
    transcript::{
        call_ids::CallIds,
        conversation,
        history::HistoryRepairs,
        repetition::CallHistory,
        replacements::{Replacements, replacements},
    },
};
use data::RunData;
use state::State;

pub use config::{Checks, ContextConfig, EndStrategy, LimitAction, OutputStrategy, RunConfig};
pub use effect::{
    CallBatch, Check, CheckVerdict, Effect, FinishedCall, HandoffCall, ModelReply, NestedUsage, NewArguments,
    NextAgent, Outcome, PreparedRequest, ReadyCall, ToolSnapshot,
};
pub use error::RunError;
pub use messages::Delivery;
pub use saved::DetachedRun;
pub use state::RunState;

pub(crate) use calls::{OpenCalls, denial, failure_result};
pub(crate) use limits::reached_usage_limit;
pub(crate) use messages::check_enqueueable;

/// A run of an agent, as a serializable state machine without I/O.
///
/// [`next`](Self::next) returns the next [`Effect`]. The driver performs it, usually with
/// [`ReactAgent::perform`](crate::ReactAgent::perform), and passes each [`Outcome`] to
/// [`apply`](Self::apply). A run does not read the system clock, generate random numbers or hold
/// handles. It can therefore be saved between any two of these calls, moved to another process, or
/// replayed from its outcomes.
///
/// # Examples
///
/// A run with a scripted model and tool, without an agent:
///
/// ```
/// use haft_core::{message::AssistantMessage, model::ChatResponse, RunInput, Timestamp, ToolCall, ToolOutput, ToolResult};
/// use haft_react::{Effect, Outcome, Run, RunConfig, run::PreparedRequest};
///
/// let mut run = Run::new(&RunConfig::default(), RunInput::new("What is 17 plus 25?"))?;
/// let call = ToolCall::new("call_1", "add", r#"{"x":17,"y":25}"#);
/// let mut replies = [
///     AssistantMessage { tool_calls: vec![call], ..AssistantMessage::default() },
///     AssistantMessage::from("It is 42."),
/// ]
/// .into_iter();
///
/// let now = Timestamp::default();
/// let answer = loop {
///     match run.next(now)? {
///         Effect::Prepare => run.apply(Outcome::Prepared(PreparedRequest::default()), now)?,
///         Effect::Chat => {
///             let reply = ChatResponse::new(replies.next().unwrap());
///             run.apply(Outcome::replied(reply), now)?;
///         }
///         Effect::Call(batch) => {
///             for ready in batch.calls {
///                 let result = ToolResult::done("", "", ToolOutput::from("42"));
///                 run.apply(Outcome::called(ready.call.id, result), now)?;
///             }
///         }
///         Effect::Done(answer) => break answer,
///         other => unreachable!("{other:?}"),
///     }
/// };
/// assert_eq!(answer.text, "It is 42.");
/// # Ok::<(), haft_core::agent::AgentError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Run {
    transcript: Transcript,
    data: RunData,
    ids: Arc<CallIds>,
    history: Arc<CallHistory>,
    /// The repairs of the earlier conversation. `None` if it needs none.
    repairs: Option<Arc<HistoryRepairs>>,
    /// The rules that [`apply_approvals`](Self::apply_approvals) has not returned to the host yet.
    new_approvals: Vec<ApprovalRule>,
    /// The messages that hooks have replaced, computed from the notes in the transcript.
    replaced: Replacements,
    /// The events that [`take_events`](Self::take_events) has not returned yet.
    events: Vec<RunEvent>,
}

/// Compares the saved data. The other fields follow from it, or belong to the driver.
impl PartialEq for Run {
    fn eq(&self, other: &Self) -> bool {
        self.data == other.data && self.transcript == other.transcript
    }
}

impl Run {
    /// The maximum number of enqueued messages that are not delivered yet.
    pub const MAX_ENQUEUED: usize = 64;

    /// Starts a new run, or resumes a suspended run with decisions, as `input` specifies.
    ///
    /// A resumed run keeps its saved configuration and ignores `config`. In both cases, the limits,
    /// the tool choice and the stop tools in `input` override the configuration. The context in
    /// `input` is not used here, because it is for the driver.
    ///
    /// # Errors
    ///
    /// Fails with [`AgentErrorKind::InvalidInput`](haft_core::agent::AgentErrorKind::InvalidInput)
    /// if the conversation is empty, if it ends with an answer and there is no new message, if a
    /// call in the transcript has no result, if a result does not follow its call (unless the run
    /// [repairs them](RunConfig::repair_history)), or if the input does not match the declared
    /// schema. Fails with the same error if the suspended run cannot be read, or if the decisions
    /// do not fit that run. The error contains the conversation without the new messages, unless
    /// the suspended run cannot be read.
    pub fn new(config: &RunConfig, input: RunInput) -> Result<Self, AgentError> {
        let mut run = match input.start {
            RunStart::New { messages, transcript } => Self::begin(config.clone(), messages, &transcript)?,
            RunStart::Resume { suspended, decisions, messages } => {
                Self::resume(suspended, decisions, messages, &input.context)?
            }
        };
        run.set_principal(&input.context);
        if let Some(limits) = input.limits {
            run.set_limits(limits);
        }
        let RunData { overrides, config, .. } = &mut run.data;
        overrides.tool_choice = input.tool_choice.or(overrides.tool_choice.take());
        overrides.stop_on = input.stop_on.or(overrides.stop_on.take());
        overrides.apply(config);
        Ok(run)
    }

    fn begin(config: RunConfig, new: Vec<Message>, earlier: &Transcript) -> Result<Self, AgentError> {
        let first_message = earlier.len();
        if new.is_empty() {
            conversation::check_continued(earlier)?;
        }
        let transcript = conversation::append(earlier, new, config.repair_history)?;
        validate_input(config.inputs.as_ref(), transcript.messages(), first_message)
            .map_err(|kind| conversation::start_error(kind, earlier))?;
        let data = RunData::new(config, transcript.messages(), first_message);
        Ok(Self::from_parts(data, transcript))
    }

    fn from_parts(data: RunData, transcript: Transcript) -> Self {
        let open = data.state.batch().into_iter().flat_map(|batch| batch.calls.ids());
        let ids = CallIds::collect(transcript.messages(), open).into();
        let replaced = replacements(transcript.messages(), 0).collect::<BTreeMap<_, _>>().into();
        let earlier = transcript.messages().get(..data.first_step).filter(|_| data.config.repair_history);
        let repairs = earlier.and_then(HistoryRepairs::find).map(Arc::new);
        let (history, new_approvals, events) = (Arc::default(), Vec::new(), Vec::new());
        Self { transcript, data, ids, history, repairs, new_approvals, replaced, events }
    }

    /// Returns the current state, without its data.
    pub fn state(&self) -> RunState {
        self.data.state.kind()
    }

    /// Returns the conversation so far. The results of a reply are appended together, after every
    /// call of the reply has a result. If the answer is [checked](Checks::answer), its message is
    /// appended only after the check.
    pub fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    /// Returns a copy of the transcript for an error report, as if the run were
    /// [cancelled](Self::cancel) now. Every call in the copy has a result, so that another run can
    /// continue the conversation. This run stays unchanged.
    pub fn closed_transcript(&self) -> Transcript {
        let mut closed = self.clone();
        closed.cancel();
        closed.transcript
    }

    /// Returns the index of the first message of this run in the transcript. Earlier messages come
    /// from previous runs.
    pub fn first_message_index(&self) -> usize {
        self.data.first_message
    }

    /// Returns the tokens and cost of this run so far.
    pub fn usage(&self) -> Usage {
        self.data.counts.usage
    }

    /// Returns the number of model requests so far. Requests for summaries and of nested runs are
    /// not included, but they count towards the [request limit](RunLimits::requests).
    pub fn requests(&self) -> u32 {
        self.data.counts.requests
    }

    /// Returns the index of the current step, counted from 0. While calls are open, this is the
    /// step of the last request. At all other times, even while a request is in flight, this is the
    /// step of the next request.
    pub fn step(&self) -> u32 {
        self.requests().saturating_sub(u32::from(self.data.state.batch().is_some()))
    }

    /// Returns the configuration of the run, including the overrides from its [`RunInput`].
    pub fn config(&self) -> &RunConfig {
        &self.data.config
    }

    /// Returns the name of the agent of a [`HandoffGroup`](crate::HandoffGroup) that the run
    /// belongs to now.
    pub fn agent(&self) -> Option<&str> {
        self.data.agent.as_deref()
    }

    /// Returns the saved [entries](crate::entries::Entries) of all extensions, by extension name.
    pub fn entries(&self) -> &SavedEntries {
        &self.data.entries
    }

    /// Returns `true` if the run uses the [fallback](crate::Dialect::fallback) of its dialect,
    /// because the server did not return native calls. A hand-off ends this.
    pub fn uses_fallback_dialect(&self) -> bool {
        self.data.uses_fallback_dialect
    }

    /// Returns `true` if the next or current request must be answered without a call: it is the
    /// final request after a limit, or asks for the outputs after the last step.
    pub fn must_answer(&self) -> bool {
        self.data.purpose.must_answer()
    }

    /// Returns the schema of the answer in the next or current reply, or `None` if this reply
    /// cannot contain the structured answer.
    pub fn answer_schema(&self) -> Option<&Schema> {
        match &self.data.state {
            State::AwaitingReply(request) => self.answer_schema_of(request),
            _ => self.requested_outputs(),
        }
    }

    fn answer_schema_of(&self, request: &state::Request) -> Option<&Schema> {
        if request.has_bare_finish { Some(bare_finish_schema()) } else { self.requested_outputs() }
    }

    /// Returns the declared outputs. `None` if the current or next request does not ask for them.
    fn requested_outputs(&self) -> Option<&Schema> {
        let config = &self.data.config;
        let is_requested = config.output_strategy == OutputStrategy::Finish || self.must_answer();
        config.outputs.as_ref().filter(|_| is_requested)
    }

    /// Returns the tool choice of the current request, or of the next request unless a hook changes
    /// it.
    pub fn tool_choice(&self) -> &ToolChoice {
        match &self.data.state {
            State::AwaitingReply(request) | State::Preparing { request: Some(request) } => {
                &request.tool_choice
            }
            _ => &self.data.config.tool_choice,
        }
    }

    /// Returns the id that the next call of the model gets if the model gave it the id `id`: the
    /// same id, or a new one if `id` is empty or already used in the conversation. `reserved`
    /// contains the ids of the earlier calls of the same reply.
    pub(crate) fn unique_call_id(&self, id: &str, reserved: &[String]) -> String {
        self.ids.unique_id(id, reserved)
    }

    /// Replaces the limits of the run with `limits`. A run that a limit has stopped can then
    /// continue.
    pub fn set_limits(&mut self, limits: RunLimits) {
        self.data.config.limits = limits;
        self.data.counts.nested_limit = None;
        self.data.purpose = self.data.purpose.without_limit();
        if let State::Ended(state::End::LimitReached) = self.data.state {
            self.data.state = State::Ready;
        }
    }

    /// Sets the data that the hooks of the agent judge. A suspended run may come from a program
    /// with other hooks.
    pub(crate) fn set_checks(&mut self, checks: Checks) {
        self.data.config.checks = checks;
    }

    /// Cancels the run. Every open call gets a result, so that another run can continue the
    /// conversation. If an answer is being checked, its message is marked as
    /// [rejected](crate::transcript::is_rejected) and appended to the transcript. A model request
    /// in flight is counted as a failed request.
    pub fn cancel(&mut self) {
        match self.take_state() {
            State::AwaitingReply(request) => self.abandon_request(&request),
            State::Compacting { is_requested: true, .. } => {
                self.data.counts.usage += Usage::failed_request();
            }
            State::Calling(batch)
            | State::Suspended(batch)
            | State::Checking(state::Candidate::Calls(batch)) => {
                self.close_calls(batch, FailureKind::Cancelled, "cancelled");
            }
            State::Checking(state::Candidate::Answer(answer)) => self.reject_unchecked(answer),
            State::Checking(state::Candidate::Input { indices, is_rejected: true }) => {
                self.withhold(&indices);
            }
            _ => {}
        }
        self.data.state = State::Ended(state::End::Cancelled);
    }

    /// Prepares this run for a new driver, after the previous driver was dropped or its process
    /// crashed.
    ///
    /// A model request in flight is counted as a failed request and repeated. [Interrupted
    /// calls](Self::interrupted_calls) to idempotent tools are also repeated. All other interrupted
    /// calls get an [unconfirmed](FailureKind::Unconfirmed) failure, with an event.
    pub fn recover(&mut self) {
        let now = self.data.clock.now;
        self.data.clock.stop();
        if let Some(batch) = self.data.state.batch_mut() {
            let unconfirmed = batch.calls.recover(now);
            self.events.extend(unconfirmed.into_iter().map(|result| RunEvent::CallFinished { result }));
        }
        match self.take_state() {
            State::AwaitingReply(request) => {
                self.abandon_request(&request);
                self.data.state = State::Ready;
            }
            State::Compacting { is_requested: true, until } => {
                self.data.counts.usage += Usage::failed_request();
                self.data.state = State::Compacting { is_requested: false, until };
            }
            State::Preparing { .. } => self.data.state = State::Ready,
            state => self.data.state = state,
        }
    }

    /// Appends `message` to the transcript.
    fn push(&mut self, message: Message) {
        self.transcript.push(message.with_created_at(self.data.clock.now));
    }

    /// Returns the messages of this run.
    fn own_messages(&self) -> &[Arc<Message>] {
        self.transcript.messages().get(self.data.first_message..).unwrap_or_default()
    }

    /// Returns the index after the last reply or result in the transcript.
    fn reply_end(&self) -> usize {
        let is_reply =
            |it: &Arc<Message>| matches!(it.body(), MessageBody::Assistant(_) | MessageBody::Tool(_));
        self.transcript.messages().iter().rposition(is_reply).map_or(0, |index| index + 1)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

fn is_auto(choice: &ToolChoice) -> bool {
    *choice == ToolChoice::Auto
}
