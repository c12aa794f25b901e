use std::{collections::BTreeSet, time::Duration};

use serde::{Deserialize, Serialize};

use super::SuspendedRun;
use crate::call::{Approvals, Decision, Decisions, PendingCall, PendingKind};
use crate::{
    limits,
    message::{Message, Transcript},
    model::ToolChoice,
    tool::{Principal, RunContext},
    usage::Cost,
};

/// The input of a run: its starting point, and settings that apply only to this run. The starting
/// point is a list of new messages, or a suspended run with decisions about its calls.
///
/// # Examples
///
/// ```
/// use haft_core::{agent::RunLimits, RunInput};
///
/// let input = RunInput::new("What is 17 plus 25?")
///     .with_limits(RunLimits { requests: Some(5), ..RunLimits::default() });
/// ```
#[derive(Clone, Debug)]
pub struct RunInput {
    /// The starting point of the run: new messages, or a suspended run.
    pub start: RunStart,
    /// The limits of this run. `None` keeps the limits of the agent.
    pub limits: Option<RunLimits>,
    /// The tool choice of this run. `None` keeps the tool choice of the agent.
    pub tool_choice: Option<ToolChoice>,
    /// The names of the stop tools of this run. `None` keeps the stop tools of the agent. See
    /// [`with_stop_on`](Self::with_stop_on).
    pub stop_on: Option<BTreeSet<String>>,
    /// The context of the tool calls, such as the principal and the host state.
    pub context: RunContext,
}

/// The starting point of a run: new messages, or a suspended run.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a run is new or resumed")]
pub enum RunStart {
    /// Messages for a new conversation, or for the next turn of an existing conversation.
    New {
        /// The messages to add to the conversation. Empty to
        /// [continue](RunInput::continue_from) a conversation that has no answer yet.
        messages: Vec<Message>,
        /// The conversation so far. Empty for a new conversation.
        transcript: Transcript,
    },
    /// A suspended run to resume, with decisions about its calls.
    Resume {
        /// The suspended run to resume.
        suspended: SuspendedRun,
        /// Decisions about the suspended calls, by call id. Calls without a decision stay
        /// suspended.
        decisions: Decisions,
        /// New messages, which the model receives after the results of all suspended calls.
        messages: Vec<Message>,
    },
}

/// Limits on the resources of a run. A field that is `None` sets no limit.
///
/// The limit on tool calls is checked before the calls of a reply are executed. The time limit also
/// interrupts requests and calls in progress. The other limits are checked before each model
/// request, so the last request can exceed the limits on tokens and cost.
///
/// Failed requests and requests that summarize the conversation count toward the limits. Requests
/// and calls of nested runs count toward all limits of the enclosing run when they are made. A
/// nested run is the run of an agent used as a tool, or any other run that a tool starts with the
/// context of its call. A nested run ends before its next request if its own limits or the limits
/// of an enclosing run are reached.
///
/// The limits [`request_input_tokens`](Self::request_input_tokens) and
/// [`request_output_tokens`](Self::request_output_tokens) apply to each request. They do not apply
/// to the requests of nested runs, nor to requests that summarize the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunLimits {
    /// The maximum number of requests to the model. Default: [`limits::RUN_REQUESTS`].
    pub requests: Option<u32>,
    /// The maximum number of tool calls. Default: unlimited.
    pub tool_calls: Option<u32>,
    /// The maximum number of input and output tokens in total. Default: unlimited.
    pub total_tokens: Option<u64>,
    /// The maximum number of input tokens. Default: unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// The maximum number of output tokens. Default: unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// The maximum number of input tokens of each request. Default: unlimited.
    ///
    /// The size of a request is estimated as the reported tokens of the previous request and its
    /// reply. If the size exceeds the limit, the context is shortened. The run ends with
    /// [`Limit::RequestInputTokens`](super::Limit::RequestInputTokens) before its next request if
    /// the context cannot be shortened, or if the shortened request also exceeded the limit. The
    /// first request of a run, and a request after a reply without reported tokens, are not
    /// limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_input_tokens: Option<u64>,
    /// The upper bound of [`ChatSettings::max_tokens`](crate::model::ChatSettings::max_tokens) in
    /// each request. Default: unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_output_tokens: Option<u32>,
    /// The maximum cost, computed with the [prices](crate::model::ChatModelExt::priced) of the
    /// models. Default: unlimited.
    ///
    /// After a request with an unknown price, the run has reached
    /// [`Limit::UnknownCost`](super::Limit::UnknownCost).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// The maximum duration of the run, without the time during which the run is suspended.
    /// Default: unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Duration>,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self { requests: Some(limits::RUN_REQUESTS), ..Self::NONE }
    }
}

impl RunLimits {
    /// No limits: every field is `None`.
    pub const NONE: Self = Self {
        requests: None,
        tool_calls: None,
        total_tokens: None,
        input_tokens: None,
        output_tokens: None,
        request_input_tokens: None,
        request_output_tokens: None,
        cost: None,
        time: None,
    };
}

impl RunInput {
    /// Creates the input for a new conversation that starts with `message`.
    pub fn new(message: impl Into<Message>) -> Self {
        Self::from_start(RunStart::New { messages: vec![message.into()], transcript: Transcript::new() })
    }

    /// Creates the input that continues `history` without a new message, for example the transcript
    /// of a run that reached a limit or was cancelled. The next request is the one that the earlier
    /// run did not make. The new run starts with its own limits.
    ///
    /// The run fails if the last message of `history` is from the assistant, because providers
    /// require a message to answer. Add one with [`with_prompt`](Self::with_prompt).
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::{Agent, RunInput, RunOutput, agent::{AgentError, AgentErrorKind}};
    ///
    /// /// Runs `agent`. If a limit is reached, the run continues once with new limits.
    /// async fn run_twice(agent: &dyn Agent, prompt: &str) -> Result<RunOutput, AgentError> {
    ///     match agent.run(prompt.into()).await {
    ///         Err(error) if matches!(*error.kind, AgentErrorKind::LimitReached(_)) => {
    ///             agent.run(RunInput::continue_from(error.transcript)).await
    ///         }
    ///         ended => ended,
    ///     }
    /// }
    /// ```
    pub fn continue_from(history: impl Into<Transcript>) -> Self {
        Self::from_start(RunStart::New { messages: Vec::new(), transcript: history.into() })
    }

    /// Creates the input that resumes `suspended` with `decisions`. The methods
    /// [`SuspendedRun::resume`] and [`SuspendedRun::approve_all`] are shortcuts.
    pub fn resume(suspended: SuspendedRun, decisions: Decisions) -> Self {
        Self::from_start(RunStart::Resume { suspended, decisions, messages: Vec::new() })
    }

    fn from_start(start: RunStart) -> Self {
        Self { start, limits: None, tool_choice: None, stop_on: None, context: RunContext::default() }
    }

    /// Sets the conversation that precedes the new messages, usually the
    /// [transcript](super::RunOutput::transcript) of an earlier run. Has no effect on the input of
    /// a suspended run, which already contains its conversation.
    #[must_use]
    pub fn with_history(mut self, history: impl Into<Transcript>) -> Self {
        if let RunStart::New { transcript, .. } = &mut self.start {
            *transcript = history.into();
        }
        self
    }

    /// Adds a new message to the input. In a suspended run, the model receives the message after
    /// the results of the suspended calls.
    ///
    /// A suspended run can be resumed with a message only if each call has a decision, because
    /// providers require the results of all calls before the next message. The run fails otherwise,
    /// and the suspended run can be resumed again. [`deny_rest`](Self::deny_rest) denies the calls
    /// without a decision.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::{RunInput, agent::SuspendedRun, call::Decision};
    ///
    /// fn change_of_mind(suspended: SuspendedRun) -> RunInput {
    ///     suspended
    ///         .resume([("call_1", Decision::approved())])
    ///         .deny_rest("the user changed the order")
    ///         .with_prompt("Send it to Rome instead.")
    /// }
    /// ```
    #[must_use]
    pub fn with_prompt(self, message: impl Into<Message>) -> Self {
        self.with_messages([message.into()])
    }

    /// Adds new messages to the input, like [`with_prompt`](Self::with_prompt).
    #[must_use]
    pub fn with_messages(mut self, new: impl IntoIterator<Item = Message>) -> Self {
        let (RunStart::New { messages, .. } | RunStart::Resume { messages, .. }) = &mut self.start;
        messages.extend(new);
        self
    }

    /// Denies all calls of the suspended run that have no decision yet. `reason` is sent to the
    /// model. Has no effect on the input of a new run.
    #[must_use]
    pub fn deny_rest(mut self, reason: impl Into<String>) -> Self {
        if let RunStart::Resume { suspended, decisions, .. } = &mut self.start {
            let denial = Decision::denied(reason);
            let decided = decisions.keys().cloned().collect();
            deny_undecided(&suspended.pending, &decided, &denial, decisions);
        }
        self
    }

    /// Sets the limits of this run, which replace all limits of the agent. A field that is `None`
    /// removes the corresponding limit.
    #[must_use]
    pub fn with_limits(mut self, limits: RunLimits) -> Self {
        self.limits = Some(limits);
        self
    }

    /// Sets the tool choice of this run. A choice that requires a call applies until the model
    /// replies with tool calls. Later requests use [`ToolChoice::Auto`].
    #[must_use]
    pub fn with_tool_choice(mut self, choice: ToolChoice) -> Self {
        self.tool_choice = Some(choice);
        self
    }

    /// Ends this run after a successful call to one of the `tools`. The answer is the result of the
    /// call, with [`StopReason::Tool`](super::StopReason::Tool).
    ///
    /// The other calls of the same reply are executed as well. A failed call does not end the run.
    #[must_use]
    pub fn with_stop_on<T: Into<String>>(mut self, tools: impl IntoIterator<Item = T>) -> Self {
        self.stop_on = Some(tools.into_iter().map(Into::into).collect());
        self
    }

    /// Adds `value` to the [host state](RunContext::state) for the tools in this run.
    #[must_use]
    pub fn with_state<T: Clone + Send + Sync + 'static>(mut self, value: T) -> Self {
        self.context.state = self.context.state.with_value(value);
        self
    }

    /// Sets the principal: the user or service that this run acts for.
    #[must_use]
    pub fn with_principal(mut self, principal: Principal) -> Self {
        self.context.principal = Some(principal);
        self
    }

    /// Sets the decisions of earlier runs that also apply to the calls of this run. The decisions
    /// that this run [remembers](crate::call::Decision::for_tool) are added to `approvals`.
    #[must_use]
    pub fn with_approvals(mut self, approvals: Approvals) -> Self {
        self.context.approvals = Some(approvals);
        self
    }

    /// Sets the context of the tool calls. The principal, the approvals and the state values that
    /// were set earlier on this input are dropped.
    #[must_use]
    pub fn with_context(mut self, context: RunContext) -> Self {
        self.context = context;
        self
    }
}

/// Adds `denial` to `decisions` for each of the `calls` and their nested calls, except calls with a
/// decision and calls with an id in `decided`.
fn deny_undecided(
    calls: &[PendingCall],
    decided: &BTreeSet<String>,
    denial: &Decision,
    decisions: &mut Decisions,
) {
    for PendingCall { call, pending } in calls {
        match (&pending.kind, decisions.get_mut(&call.id)) {
            (PendingKind::Nested { pending }, Some(Decision::Nested { decisions })) => {
                deny_undecided(pending, decided, denial, decisions);
            }
            (_, Some(_)) => {}
            (PendingKind::Nested { pending }, None) => deny_undecided(pending, decided, denial, decisions),
            (_, None) if decided.contains(&call.id) => {}
            (_, None) => drop(decisions.insert(call.id.clone(), denial.clone())),
        }
    }
}

impl<T: Into<Message>> From<T> for RunInput {
    fn from(message: T) -> Self {
        Self::new(message)
    }
}
