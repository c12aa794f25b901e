//! The agent loop as a sans-I/O state machine, the [`Run`].

mod answer;
mod answer_calls;
mod approvals;
mod budget;
mod call_counts;
mod call_ids;
mod call_review;
mod compaction;
mod config;
mod context;
mod conversation;
mod dialect;
mod effect;
mod enqueue;
mod error;
mod extension_entries;
mod guardrail;
mod head;
mod history;
mod input_validation;
mod limits;
mod message_metadata;
mod output;
mod output_schema;
mod pairing;
mod parse_answer;
mod reconfigure;
mod repetition;
mod reply;
mod request;
mod request_purpose;
mod segments;
mod serialization;
mod state;
mod steps;
mod stop;
mod suspend;
mod tool_calls;
mod tool_choice;

use std::collections::BTreeMap;

use haft_core::{
    Message, RunInput, Schema, Transcript,
    agent::{AgentError, AgentErrorKind, RunLimits, RunStart},
    call::{ApprovalRule, FailureKind},
    toolset::ToolList,
    usage::Usage,
};

use crate::dialect::bare_finish_schema;
use call_ids::CallIds;
use guardrail::Replacements;
use head::RunData;
use history::HistoryRepairs;
use repetition::CallHistory;
use request::take_nested_request;
use state::State;

pub use budget::RunBudget;
pub use call_review::CallReview;
pub use config::{EndStrategy, LimitAction, OutputStrategy, RunConfig};
pub use context::ContextConfig;
pub use conversation::{append_to_conversation, set_timestamps};
pub use effect::{CallBatch, Effect, Step, ViewChange};
pub use enqueue::{Delivery, check_enqueueable};
pub use error::RunError;
pub use guardrail::{GuardrailOutcome, InputCheck, NewArguments, RulingDecision};
pub use message_metadata::{
    has_written_calls, hint_message, is_enqueued, is_extracted, is_hint, is_rejected, is_unusable,
    unsummarized_count,
};
pub use output::{Output, OutputError};
pub use pairing::find_unpaired_call;
pub use request::is_broken_reply;
pub use segments::is_from_user;
pub use serialization::RunHead;
pub use state::RunState;
pub use steps::{agent_steps, reasoning_or_text};

/// A run of an agent, as a serializable sans-I/O state machine.
///
/// [`next`](Self::next) returns the next [`Effect`]. The driver performs the effect and reports its
/// outcome with the method named in the documentation of the effect. A run does not read the system
/// clock, generate random numbers or hold handles. The current time, and inputs that cannot be
/// serialized, are passed to `next` as a [`Step`]. A run can therefore be saved between any two
/// steps, moved to another process, replayed, or driven by code without an async runtime.
///
/// # Errors
///
/// After an error of [`next`](Self::next) or [`on_chat`](Self::on_chat), the driver should stop.
/// Every call in the transcript then has a result, unless the error is
/// [`AgentErrorKind::UnexpectedOutcome`]. Unless the run was cancelled, it remains valid: `next`
/// can be called again, for example after a limit was raised, or when the model server is available
/// again.
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
/// let mut replies = [
///     AssistantMessage {
///         tool_calls: vec![ToolCall::new("call_1", "add", r#"{"x":17,"y":25}"#)],
///         ..AssistantMessage::default()
///     },
///     AssistantMessage::from("It is 42."),
/// ]
/// .into_iter();
///
/// let answer = loop {
///     match run.next(&step)? {
///         // List the tools and run the hooks here, then pass the results to `next`.
///         Effect::Prepare => {}
///         Effect::Chat(_request) => {
///             let response = ChatResponse::new(replies.next().unwrap());
///             run.on_chat(Ok(NativeCalls.parse_reply(response, run.outputs())))?;
///         }
///         Effect::Call(batch) => {
///             for call in batch.calls {
///                 run.on_result(&call.id, ToolResult::done("", "", ToolOutput::from("42")))?;
///             }
///         }
///         Effect::Done(answer) => break answer,
///         other => unreachable!("{other:?}"),
///     }
/// };
/// assert_eq!(answer.text, "It is 42.");
/// # Ok::<(), haft_core::agent::AgentError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    transcript: Transcript,
    head: RunData,
    ids: CallIds,
    history: CallHistory,
    /// The repairs of the earlier conversation. `None` if it needs none.
    repairs: Option<HistoryRepairs>,
    /// The rules that [`apply_approvals`](Self::apply_approvals) has not returned to the host yet.
    new_approvals: Vec<ApprovalRule>,
    /// The messages that guardrails have replaced, computed from the notes in the transcript.
    replaced: Replacements,
}

impl Run {
    /// Starts a new run, or resumes a suspended run with decisions, as `input` specifies.
    ///
    /// A resumed run keeps its saved configuration and ignores `config`. In both cases, the limits,
    /// the tool choice and the stop tools in `input` override the configuration. The context in
    /// `input` is not used here, because it is for the driver.
    ///
    /// # Errors
    ///
    /// Fails with [`AgentErrorKind::InvalidInput`] if the conversation is empty, if it ends with an
    /// answer and there is no new message, if a call in the transcript has no result, if a result
    /// does not follow its call (unless the run [repairs them](RunConfig::repair_history)), or if
    /// the input does not match the declared schema. Fails with the same error if the suspended run
    /// cannot be read, or if the decisions do not fit that run. The error contains the conversation
    /// without the new messages, unless the suspended run cannot be read.
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
        let RunData { overrides, config, .. } = &mut run.head;
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
        input_validation::validate_input(config.inputs.as_ref(), transcript.messages(), first_message)
            .map_err(|kind| conversation::start_error(kind, earlier))?;
        let head = RunData::new(config, transcript.messages(), first_message);
        Ok(Self::from_parts(head, transcript))
    }

    fn from_parts(head: RunData, transcript: Transcript) -> Self {
        let ids = CallIds::collect(transcript.messages(), &head);
        let replaced = guardrail::replacements(transcript.messages(), 0).collect::<BTreeMap<_, _>>();
        let earlier = transcript.messages().get(..head.first_step).filter(|_| head.config.repair_history);
        let repairs = earlier.and_then(HistoryRepairs::find);
        let (history, new_approvals) = (CallHistory::default(), Vec::new());
        Self { transcript, head, ids, history, repairs, new_approvals, replaced: replaced.into() }
    }

    /// Returns the current state as a [`RunState`], which has no associated data.
    pub fn state(&self) -> RunState {
        self.head.state.state().run_state()
    }

    /// Returns the conversation so far. The results of a batch are appended together, after every
    /// call of the batch has a result. If the run [validates outputs](RunConfig::check_outputs), a
    /// message with an output is appended only after the validation.
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
        self.head.first_message
    }

    /// Returns the tokens and cost of this run so far.
    pub fn usage(&self) -> Usage {
        self.head.usage
    }

    /// Returns the number of model requests so far. Requests for summaries and of nested runs are
    /// not included, but they count towards the [request limit](RunLimits::requests).
    pub fn requests(&self) -> u32 {
        self.head.requests
    }

    /// Returns the index of the current step, counted from 0. While calls are open, this is the
    /// step of the last request. At all other times, even while a request is in flight, this is the
    /// step of the next request.
    pub fn step(&self) -> u32 {
        self.head.requests.saturating_sub(u32::from(self.head.state.batch().is_some()))
    }

    /// Returns the configuration of the run, including the overrides from its [`RunInput`].
    pub fn config(&self) -> &RunConfig {
        &self.head.config
    }

    /// Returns the output schema for the next reply, or `None` if that reply cannot contain the
    /// structured answer. Pass the schema to [`Dialect::parse_reply`](crate::Dialect::parse_reply)
    /// and [`Dialect::stream_parser`](crate::Dialect::stream_parser).
    pub fn outputs(&self) -> Option<&Schema> {
        match self.head.state.sent_request() {
            Some(request) => self.outputs_in(request),
            None => self.outputs_of(self.head.state.purpose()),
        }
    }

    /// Returns the output schema that the reply to `request` must have. If the request is followed
    /// by an extraction and its dialect ends the steps by a call, this call has no arguments.
    fn outputs_in(&self, request: &state::SentRequest) -> Option<&Schema> {
        if request.has_bare_finish {
            return Some(bare_finish_schema());
        }
        self.outputs_of(request.purpose)
    }

    /// Returns the output schema, or `None` if the reply to a request with this `purpose` cannot
    /// contain structured output.
    fn outputs_of(&self, purpose: state::RequestPurpose) -> Option<&Schema> {
        let config = &self.head.config;
        let is_requested = config.output_strategy == OutputStrategy::Finish || purpose.must_answer();
        config.outputs.as_ref().filter(|_| is_requested)
    }

    /// Returns the id that the next call of the model gets if the model gave it the id `id`: the
    /// same id, or a new one if `id` is empty or already used in the conversation. `reserved`
    /// contains the ids of the earlier calls of the same reply.
    ///
    /// A driver that reports calls while the model writes them uses this function, and sets the
    /// returned ids in the [`Reply`](crate::dialect::Reply).
    pub fn unique_call_id(&self, id: &str, reserved: &[String]) -> String {
        self.ids.unique_id(id, reserved)
    }

    /// Replaces the limits of the run with `limits`. A run that a limit has stopped can then
    /// continue.
    pub fn set_limits(&mut self, limits: RunLimits) {
        self.head.config.limits = limits;
        self.head.nested_limit = None;
        self.head.state.lift_limit();
    }

    /// Advances the run and returns its next effect.
    ///
    /// After [`Effect::Prepare`], pass newly prepared inputs in the next `step`. After
    /// [`Effect::Call`], pass the inputs of the request that the model replied to.
    ///
    /// # Errors
    ///
    /// Fails if the run cannot continue, for example because of a limit. Fails with
    /// [`AgentErrorKind::UnexpectedOutcome`] if the driver has not reported the outcome of an
    /// [`Effect::Chat`] or [`Effect::Call`]. [`Effect::CheckInput`], [`Effect::Compact`],
    /// [`Effect::Check`], [`Effect::Review`] and [`Effect::Wait`] are returned again until their
    /// outcome is reported, and [`Effect::Done`] is returned by each further call.
    pub fn next(&mut self, step: &Step<'_>) -> Result<Effect, AgentErrorKind> {
        self.tick(step.now);
        loop {
            if let Some(effect) = self.advance(step)? {
                return Ok(effect);
            }
        }
    }

    /// Processes the current state. Returns the next effect, or `None` if `advance` must be called
    /// again because the run needs no effect at this point.
    fn advance(&mut self, step: &Step<'_>) -> Result<Option<Effect>, AgentErrorKind> {
        match self.head.state.state() {
            State::ReadyToRequest { .. } => Ok(Some(self.prepare())),
            State::Preparing { .. } => self.build_request(step),
            State::Compacting { .. } => {
                self.check_stop()?;
                take_nested_request(step)?;
                Ok(self.compact_effect())
            }
            State::AwaitingReply(_) => Err(RunError::RequestInProgress.into()),
            State::ReplyReceived { .. } => match self.input_check() {
                Some(check) => Ok(Some(Effect::CheckInput(check))),
                None => self.apply_reply(Some(step)).map(|()| None),
            },
            State::CallingTools(_) => self.next_calls(step.tools),
            State::Suspended(_) => Ok(Some(self.resume_or_wait())),
            State::ReviewingCalls { results, output: None } => Ok(Some(self.review_effect(*results))),
            State::ReviewingCalls { output: Some(output), results } => {
                let sources = self.result_indices(*results).collect();
                let next = self.stop_with_output(output.clone(), sources);
                self.head.state.stop_with_output(next);
                Ok(None)
            }
            State::StoppedByTool { result, purpose } => {
                let (result, purpose) = (*result, *purpose);
                self.stop_with_result(result, purpose);
                Ok(None)
            }
            State::CheckingOutput { output, .. } => Ok(Some(Effect::Check(output.clone()))),
            State::LimitReached { purpose } => Err(match purpose.limit() {
                Some(limit) => AgentErrorKind::LimitReached(limit),
                None => AgentErrorKind::Incomplete,
            }),
            State::Finishing(answer) => {
                if self.has_follow_up(answer.stop_reason) {
                    self.deliver_all();
                    // The answer was accepted, so later rejections are counted from zero.
                    self.head.rejected_replies = 0;
                    self.head.state.continue_run();
                } else {
                    self.head.state.finish();
                }
                Ok(None)
            }
            State::Finished(answer) => {
                let answer = self.build_answer(answer.stop_reason, answer.output.as_deref());
                Ok(Some(Effect::Done(Box::new(answer))))
            }
            State::Cancelled => Err(AgentErrorKind::Cancelled),
        }
    }

    /// Cancels the run. Every open call gets a result, so that another run can continue the
    /// conversation. If an output is being validated, its message is marked as
    /// [rejected](is_rejected) and appended to the transcript. A model request in flight is counted
    /// as a failed request.
    pub fn cancel(&mut self) {
        self.cancel_input_check();
        // A reply that was reported but not applied must still be recorded, and its calls must be
        // closed. An error is ignored, because the run ends anyway.
        let _ = self.apply_reply(None);
        self.reject_output();
        self.close_calls(FailureKind::Cancelled, "cancelled");
        self.count_abandoned_request();
        self.head.state.cancel();
    }

    /// Prepares this run for a new driver, after the previous driver was dropped or its process
    /// crashed. `tools` are the tools of the [`Step`] for the next call to [`next`](Self::next).
    ///
    /// A model request in flight is counted as a failed request and repeated. [Interrupted
    /// calls](Self::interrupted_calls) to idempotent tools are also repeated. All other interrupted
    /// calls get an [unconfirmed](FailureKind::Unconfirmed) failure. If the run is at a step
    /// boundary, or a model request is in flight, `next` then builds the request without returning
    /// [`Effect::Prepare`] first.
    pub fn recover(&mut self, tools: &ToolList) {
        let now = self.head.now();
        self.head.clock.stop();
        if let Some(batch) = self.head.state.batch_mut() {
            batch.calls.recover(now, tools);
        }
        self.count_abandoned_request();
        self.head.state.recover();
    }

    fn push(&mut self, message: Message) {
        self.transcript.push(message.with_created_at(self.head.now()));
    }
}
