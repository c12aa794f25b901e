use std::{collections::BTreeSet, time::Duration};

use serde::{Deserialize, Serialize};

use super::SuspendedRun;
use crate::call::Decisions;
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
        /// The messages to add to the conversation.
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
    },
}

/// Limits on the resources of a run. A field that is `None` sets no limit.
///
/// The limit on tool calls is checked before the calls of a reply are executed. The time limit also
/// interrupts requests and calls in progress. The other limits are checked before each model
/// request, so the last request can exceed the limits on tokens and cost.
///
/// Failed requests and requests that summarize the conversation count toward the limits. Requests
/// of agents used as tools count toward the limits on tokens and cost, but not toward `requests`.
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
        cost: None,
        time: None,
    };
}

impl RunInput {
    /// Creates the input for a new conversation that starts with `message`.
    pub fn new(message: impl Into<Message>) -> Self {
        Self::from_start(RunStart::New { messages: vec![message.into()], transcript: Transcript::new() })
    }

    /// Creates the input that resumes `suspended` with `decisions`. The methods
    /// [`SuspendedRun::resume`] and [`SuspendedRun::approve_all`] are shortcuts.
    pub fn resume(suspended: SuspendedRun, decisions: Decisions) -> Self {
        Self::from_start(RunStart::Resume { suspended, decisions })
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

    /// Sets the context of the tool calls. The principal and the state values that were set earlier
    /// on this input are dropped.
    #[must_use]
    pub fn with_context(mut self, context: RunContext) -> Self {
        self.context = context;
        self
    }
}

impl<T: Into<Message>> From<T> for RunInput {
    fn from(message: T) -> Self {
        Self::new(message)
    }
}
