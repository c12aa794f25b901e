use std::{collections::BTreeSet, time::Duration};

use serde::{Deserialize, Serialize};

use super::Parked;
use crate::call::Decisions;
use crate::{
    limits,
    message::{Message, Transcript},
    model::ToolChoice,
    tool::{Principal, RunContext},
    usage::Cost,
};

/// What a run begins with, and for whom it runs.
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
    /// Where the run begins.
    pub start: RunStart,
    /// Limits of this run, in place of the agent's.
    pub limits: Option<RunLimits>,
    /// What the model may call in this run, in place of what the agent says.
    pub tool_choice: Option<ToolChoice>,
    /// The tools that end this run, in place of those that the agent names.
    pub stop_on: Option<BTreeSet<String>>,
    /// What its tools are given: principal, state, cancellation, progress.
    pub context: RunContext,
}

/// Where a run begins.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a run begins anew or is resumed")]
pub enum RunStart {
    /// With something new to say.
    New {
        /// The new messages.
        messages: Vec<Message>,
        /// What was said before; empty for a new conversation.
        transcript: Transcript,
    },
    /// Where it was parked.
    Resume {
        /// The run that waits.
        parked: Parked,
        /// Decisions about its calls. Some may be missing.
        decisions: Decisions,
    },
}

/// How much a run may use. `None` is no limit. What is used is looked at before each request and before calls are made, and
/// includes what summaries, agents that are tools, and a request that fails have used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunLimits {
    /// How often the model may be asked. Default: [`limits::RUN_REQUESTS`].
    pub requests: Option<u32>,
    /// How many calls may be made. Default: none.
    pub tool_calls: Option<u32>,
    /// How many tokens may be read and written in all. Default: none.
    pub total_tokens: Option<u64>,
    /// How many tokens may be read. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// How many tokens may be written. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// How much the run may cost, by the [prices](crate::model::ChatModelExt::priced) of its models. Where the price of a request is not
    /// known, no more are made: the run ends with [`Limit::UnknownCost`](super::Limit::UnknownCost). Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// How long the run may take. While it is parked its time stands still. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Duration>,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self { requests: Some(limits::RUN_REQUESTS), ..Self::NONE }
    }
}

impl RunLimits {
    /// No limits at all.
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
    /// Begins a conversation.
    pub fn new(message: impl Into<Message>) -> Self {
        Self::from_start(RunStart::New { messages: vec![message.into()], transcript: Transcript::new() })
    }

    /// Resumes a suspended run. See [`Parked::resume`] and [`Parked::approve_all`] for shorter forms.
    pub fn resume(parked: Parked, decisions: Decisions) -> Self {
        Self::from_start(RunStart::Resume { parked, decisions })
    }

    fn from_start(start: RunStart) -> Self {
        Self { start, limits: None, tool_choice: None, stop_on: None, context: RunContext::default() }
    }

    /// Continues a conversation with this [transcript](super::RunOutput::transcript). Ignored for a
    /// resumed run, which has its own.
    #[must_use]
    pub fn with_history(mut self, history: impl Into<Transcript>) -> Self {
        if let RunStart::New { transcript, .. } = &mut self.start {
            *transcript = history.into();
        }
        self
    }

    /// Sets the limits of this run.
    #[must_use]
    pub fn with_limits(mut self, limits: RunLimits) -> Self {
        self.limits = Some(limits);
        self
    }

    /// Sets whether the model may, must or must not call in this run. A call that it must make, it must make once: when it has
    /// called, it decides by itself.
    #[must_use]
    pub fn with_tool_choice(mut self, choice: ToolChoice) -> Self {
        self.tool_choice = Some(choice);
        self
    }

    /// Ends this run when one of these tools was done: its result is the answer, with [`StopReason::Tool`](super::StopReason::Tool).
    /// Calls beside it are made too; one that fails ends nothing.
    #[must_use]
    pub fn with_stop_on<T: Into<String>>(mut self, tools: impl IntoIterator<Item = T>) -> Self {
        self.stop_on = Some(tools.into_iter().map(Into::into).collect());
        self
    }

    /// Adds a value to the [state](RunContext::state) of the tools in this run.
    #[must_use]
    pub fn with_state<T: Clone + Send + Sync + 'static>(mut self, value: T) -> Self {
        self.context.state = self.context.state.with(value);
        self
    }

    /// Sets the principal of this run.
    #[must_use]
    pub fn with_principal(mut self, principal: Principal) -> Self {
        self.context.principal = Some(principal);
        self
    }

    /// Sets the context of the tools. Replaces earlier state and principal.
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
