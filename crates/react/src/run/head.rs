//! The head of a run: all of its saved data except the transcript.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use haft_core::{
    Message, Timestamp, ToolCall,
    agent::{GuardrailReport, Limit},
    call::ApprovalRule,
    model::ToolChoice,
    tool::FailedAttempts,
    usage::Usage,
};
use serde::{Deserialize, Serialize};

use super::{
    RunConfig, context::ContextRange, enqueue::EnqueuedMessage, guardrail::InputProgress, limits::RunClock,
    state::StateMachine,
};
use crate::extension::SavedEntries;

/// The saved data of a run, except its transcript. Its size does not depend on the length of the
/// conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct RunData {
    pub(super) config: RunConfig,
    /// Settings from the [`RunInput`](haft_core::RunInput). They override `config`, even after a
    /// hand-off has replaced `config` with the configuration of another agent.
    #[serde(default, skip_serializing_if = "Overrides::is_empty")]
    pub(super) overrides: Overrides,
    /// The index of the first message of this run in the transcript.
    pub(super) first_message: usize,
    /// The transcript index of the first message after the input of this run.
    pub(super) first_step: usize,
    pub(super) state: StateMachine,
    pub(super) clock: RunClock,
    pub(super) usage: Usage,
    pub(super) requests: u32,
    pub(super) tool_calls: u32,
    /// The number of model requests of nested runs, such as the runs of agents used as tools. The
    /// calls of nested runs are included in `tool_calls`.
    #[serde(default, skip_serializing_if = "is_zero_u32")]
    pub(super) nested_requests: u32,
    /// The limit of this run that has forbidden the calls of a nested run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) nested_limit: Option<Limit>,
    /// `true` if the run uses the [fallback](crate::Dialect::fallback) of its dialect.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) uses_fallback_dialect: bool,
    /// The number of consecutive rejected replies.
    pub(super) rejected_replies: u32,
    /// The number of times in a row that the model has made its latest call, or its latest cycle of
    /// calls such as A, B, A, B. 1 means that no call is repeated.
    pub(super) repeated_calls: u32,
    /// The failed attempts of each tool since its last success, by tool name.
    pub(super) failed_attempts: BTreeMap<String, FailedAttempts>,
    /// The number of finished calls to each tool with a
    /// [maximum](haft_core::tool::ToolPolicy::max_calls), by tool name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) limited_calls: BTreeMap<String, u32>,
    /// The part of the transcript that is sent in model requests.
    pub(super) context_range: ContextRange,
    /// The ids of the calls that give the outputs of the run, or failed to give them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) answer_calls: BTreeSet<String>,
    /// Enqueued messages that are not delivered yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) enqueued: Vec<EnqueuedMessage>,
    /// The progress of the input guardrails.
    #[serde(default, skip_serializing_if = "InputProgress::is_default")]
    pub(super) input: InputProgress,
    /// The reports of guardrails so far.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) guardrails: Vec<GuardrailReport>,
    /// The saved entries of extensions, by extension name.
    #[serde(default, skip_serializing_if = "SavedEntries::is_empty")]
    pub(super) entries: SavedEntries,
    /// `true` if the run ends before its next model request. Not saved: the request to stop belongs
    /// to the driver.
    #[serde(skip)]
    pub(super) is_stopping: bool,
    /// The id of the principal that the run acts for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) principal: Option<String>,
    /// The remembered decisions of this run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) approvals: Vec<ApprovalRule>,
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

impl Overrides {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn apply(&self, config: &mut RunConfig) {
        if let Some(tools) = &self.stop_on {
            config.stop_on.clone_from(tools);
        }
        if let Some(choice) = &self.tool_choice {
            config.tool_choice.clone_from(choice);
        }
    }
}

impl RunData {
    pub(super) fn new(config: RunConfig, messages: &[Arc<Message>], first_message: usize) -> Self {
        Self {
            config,
            overrides: Overrides::default(),
            first_message,
            first_step: messages.len(),
            state: StateMachine::default(),
            clock: RunClock::default(),
            usage: Usage::default(),
            requests: 0,
            tool_calls: 0,
            nested_requests: 0,
            nested_limit: None,
            uses_fallback_dialect: false,
            rejected_replies: 0,
            repeated_calls: 0,
            failed_attempts: BTreeMap::new(),
            limited_calls: BTreeMap::new(),
            context_range: ContextRange::at_start(messages, first_message),
            answer_calls: BTreeSet::new(),
            enqueued: Vec::new(),
            input: InputProgress::default(),
            guardrails: Vec::new(),
            entries: SavedEntries::new(),
            is_stopping: false,
            principal: None,
            approvals: Vec::new(),
        }
    }

    /// Returns the time of the last step, see [`Step::now`](super::Step::now).
    pub(super) fn now(&self) -> Timestamp {
        self.clock.now
    }

    /// Changes the tool choice to `Auto` if it requires a call and `calls`, the calls of a reply,
    /// contain the required call.
    pub(super) fn reset_tool_choice(&mut self, calls: &[ToolCall]) {
        let release = |choice: &mut ToolChoice| {
            let has_required_call = match choice {
                ToolChoice::Required => true,
                ToolChoice::Tool(name) => calls.iter().any(|call| call.name == name.as_str()),
                ToolChoice::Auto | ToolChoice::None => false,
            };
            if has_required_call {
                *choice = ToolChoice::Auto;
            }
        };
        release(&mut self.config.tool_choice);
        self.overrides.tool_choice.iter_mut().for_each(release);
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(super) fn is_zero(value: &usize) -> bool {
    *value == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero_u32(value: &u32) -> bool {
    *value == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(super) fn is_false(value: &bool) -> bool {
    !value
}

pub(super) fn is_auto(choice: &ToolChoice) -> bool {
    *choice == ToolChoice::Auto
}
