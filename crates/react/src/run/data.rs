//! The saved data of a run, except its transcript and the data of its state.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use haft_core::{
    Message,
    agent::{GuardrailReport, Limit, StopReason},
    call::ApprovalRule,
    model::ToolChoice,
    tool::FailedAttempts,
    usage::Usage,
};
use serde::{Deserialize, Serialize};

use super::{
    RunConfig, is_false,
    limits::RunClock,
    messages::EnqueuedMessage,
    state::State,
    window::{Pressure, Window},
};
use crate::entries::SavedEntries;

/// The saved data of a run, except its transcript. Its size does not depend on the length of the
/// conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct RunData {
    pub(super) config: RunConfig,
    /// Settings from the [`RunInput`](haft_core::RunInput). They override `config`, even after a
    /// hand-off has replaced `config` with the configuration of another agent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) overrides: Overrides,
    /// The index of the first message of this run in the transcript.
    pub(super) first_message: usize,
    /// The transcript index of the first message after the input of this run.
    pub(super) first_step: usize,
    pub(super) state: State,
    /// The purpose of the current or next model request.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) purpose: Purpose,
    pub(super) clock: RunClock,
    pub(super) counts: Counts,
    /// The part of the transcript that is sent in model requests.
    pub(super) window: Window,
    /// The size of the last request, and the reactions to it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) pressure: Pressure,
    /// `true` if the run uses the [fallback](crate::Dialect::fallback) of its dialect.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) uses_fallback_dialect: bool,
    /// The ids of the calls that give the outputs of the run, or failed to give them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) answer_calls: BTreeSet<String>,
    /// Enqueued messages that are not delivered yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) enqueued: Vec<EnqueuedMessage>,
    /// The transcript index up to which the hooks have judged the input.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) checked_input: usize,
    /// The reports of hooks so far.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) reports: Arc<Vec<GuardrailReport>>,
    /// The saved entries of extensions, by extension name.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) entries: Arc<SavedEntries>,
    /// The name of the current agent in a group of agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) agent: Option<String>,
    /// The id of the principal that the run acts for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) principal: Option<String>,
    /// The remembered decisions of this run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) approvals: Vec<ApprovalRule>,
}

/// The counters of a run, most of them for its limits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Counts {
    /// The tokens and cost so far.
    pub(super) usage: Usage,
    /// The model requests, without summaries.
    pub(super) requests: u32,
    /// The requests for summaries.
    #[serde(skip_serializing_if = "is_default")]
    pub(super) summaries: u32,
    /// The requests of nested runs, such as the runs of agents used as tools.
    #[serde(skip_serializing_if = "is_default")]
    pub(super) nested_requests: u32,
    /// The tool calls, with those of nested runs.
    pub(super) tool_calls: u32,
    /// The hand-offs.
    #[serde(skip_serializing_if = "is_default")]
    pub(super) handoffs: u32,
    /// The limit of this run that has forbidden the calls of a nested run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) nested_limit: Option<Limit>,
    /// The consecutive rejected replies.
    pub(super) rejected_replies: u32,
    /// The number of times in a row that the model has made its latest call, or its latest cycle of
    /// calls such as A, B, A, B. 1 means that no call is repeated.
    pub(super) repeated_calls: u32,
    /// The names of the called tools that are
    /// [repeatable](haft_core::tool::ToolPolicy::repeatable).
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) repeatable_tools: BTreeSet<String>,
    /// The failed attempts of each tool since its last success, by tool name.
    pub(super) failed_attempts: BTreeMap<String, FailedAttempts>,
    /// The finished calls to each tool with a
    /// [maximum](haft_core::tool::ToolPolicy::max_calls), by tool name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) limited_calls: BTreeMap<String, u32>,
}

/// Settings from the [`RunInput`](haft_core::RunInput), which override the configuration of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Overrides {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_choice: Option<ToolChoice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stop_on: Option<BTreeSet<String>>,
}

/// The purpose of a model request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Purpose {
    /// A normal step: the model makes tool calls or answers.
    #[default]
    Step,
    /// A separate request after the last step, in which the model returns the declared outputs
    /// ([`OutputStrategy::Extraction`](super::OutputStrategy::Extraction)). With a `limit`, it is
    /// the final request after this limit was reached.
    Outputs { limit: Option<Limit> },
    /// The final request after `limit` was reached, in which the model must answer.
    FinalAnswer { limit: Limit },
}

impl RunData {
    pub(super) fn new(config: RunConfig, messages: &[Arc<Message>], first_message: usize) -> Self {
        Self {
            config,
            overrides: Overrides::default(),
            first_message,
            first_step: messages.len(),
            state: State::Ready,
            purpose: Purpose::Step,
            clock: RunClock::default(),
            counts: Counts::default(),
            window: Window::at_start(messages, first_message),
            pressure: Pressure::default(),
            uses_fallback_dialect: false,
            answer_calls: BTreeSet::new(),
            enqueued: Vec::new(),
            checked_input: 0,
            reports: Arc::default(),
            entries: Arc::default(),
            agent: None,
            principal: None,
            approvals: Vec::new(),
        }
    }
}

impl Overrides {
    pub(super) fn apply(&self, config: &mut RunConfig) {
        if let Some(tools) = &self.stop_on {
            config.stop_on.clone_from(tools);
        }
        if let Some(choice) = &self.tool_choice {
            config.tool_choice.clone_from(choice);
        }
    }
}

impl Purpose {
    /// Returns `true` if the model must answer without tool calls.
    pub(super) fn must_answer(self) -> bool {
        self != Self::Step
    }

    /// Returns the reached limit that makes the request the final one.
    pub(super) fn limit(self) -> Option<Limit> {
        match self {
            Self::Step => None,
            Self::Outputs { limit } => limit,
            Self::FinalAnswer { limit } => Some(limit),
        }
    }

    /// Returns the stop reason of a run that ends with the reply to the request.
    pub(super) fn stop_reason(self) -> StopReason {
        self.limit().map_or(StopReason::Finished, |_| StopReason::LimitReached)
    }

    pub(super) fn with_limit(self, limit: Limit) -> Self {
        match self {
            Self::Outputs { .. } => Self::Outputs { limit: Some(limit) },
            Self::Step | Self::FinalAnswer { .. } => Self::FinalAnswer { limit },
        }
    }

    pub(super) fn without_limit(self) -> Self {
        match self {
            Self::Outputs { .. } => Self::Outputs { limit: None },
            Self::Step | Self::FinalAnswer { .. } => Self::Step,
        }
    }
}

pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
