//! What is saved of a run besides its transcript.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use haft_core::{
    Message, Timestamp, ToolCall,
    agent::{Limit, StopReason},
    message::AssistantMessage,
    model::ToolChoice,
    usage::Usage,
};
use serde::{Deserialize, Serialize};

use super::{Output, RunConfig, calls::OpenCalls, context::Shown};
use crate::Reply;

/// What is saved of a run besides its transcript. Its size does not depend on the length of the conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Head {
    pub(super) config: RunConfig,
    /// What the question says of its run, whoever works on it.
    #[serde(default, skip_serializing_if = "Asked::is_nothing")]
    pub(super) asked: Asked,
    /// How many messages of the transcript are from before this run.
    pub(super) start: usize,
    /// How many were there when another agent took over.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) handed: usize,
    /// How many are there when its own first message is made.
    pub(super) first: usize,
    /// The time of the last step.
    pub(super) now: Timestamp,
    pub(super) phase: Phase,
    pub(super) usage: Usage,
    pub(super) requests: u32,
    pub(super) tool_calls: u32,
    /// How many replies in a row could not be used.
    pub(super) unusable_replies: u32,
    /// How many replies in a row asked for the same calls.
    pub(super) identical_calls: u32,
    /// In how many replies in a row each tool asked for another try.
    pub(super) retries: BTreeMap<String, u32>,
    /// What the model is shown.
    pub(super) shown: Shown,
    /// How long the run has taken, without the time that it waited.
    #[serde(default)]
    pub(super) elapsed_ms: u64,
    /// Whether the time since the last step counts.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) is_timed: bool,
    /// Whether the model has ended its work and is asked for the outputs.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) is_extracting: bool,
    /// The calls that tools pushed and that were not handed out yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) queued: Vec<ToolCall>,
    /// How many calls tools pushed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) pushed: usize,
    /// What the last request asked for, where it did not leave it to the model.
    #[serde(default, skip_serializing_if = "is_auto")]
    pub(super) tool_choice: ToolChoice,
    /// Whether the model has called in this run.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) has_called: bool,
    /// The message whose result is the answer, once nothing is queued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ended_by: Option<usize>,
    /// Set when the model must answer: the limit that was reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) last_request: Option<Limit>,
}

/// What a question says of its run, in the place of what is configured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Asked {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_choice: Option<ToolChoice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stop_on: Option<BTreeSet<String>>,
}

impl Asked {
    fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// Takes the place of what is configured; whether it says what must be called.
    pub(super) fn overrule(&self, config: &mut RunConfig) -> bool {
        if let Some(tools) = &self.stop_on {
            config.stop_on.clone_from(tools);
        }
        if let Some(choice) = &self.tool_choice {
            config.tool_choice.clone_from(choice);
        }
        self.tool_choice.is_some()
    }
}

/// Where a run is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub(super) enum Phase {
    /// The model is to be asked.
    Asking,
    /// A request was handed out.
    Asked,
    /// There is too much for the model: what stands before this message is to be summarised.
    Compacting { to: usize },
    /// There is a reply, and nothing was done about it.
    Replied { reply: Box<Reply> },
    /// The calls of a reply are made, or calls that tools pushed.
    Calling {
        calls: OpenCalls,
        #[serde(default, skip_serializing_if = "is_false")]
        queued: bool,
    },
    /// A limit was reached, and the model used its last request for something else than an answer.
    Exhausted { limit: Limit },
    /// There is an answer, which is to be checked before it is taken.
    Checking {
        output: Box<Output>,
        /// What the model said, if the answer is its own; not in the transcript yet.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        said: Option<Box<AssistantMessage>>,
    },
    /// There is an answer.
    Answered {
        stop_reason: StopReason,
        /// What it is, where that is not what the model said last.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<Box<Output>>,
    },
    /// The run was cancelled.
    Cancelled,
}

impl Head {
    pub(super) fn new(config: RunConfig, messages: &[Arc<Message>], start: usize) -> Self {
        Self {
            config,
            asked: Asked::default(),
            start,
            first: messages.len(),
            handed: 0,
            now: Timestamp::default(),
            phase: Phase::Asking,
            usage: Usage::default(),
            requests: 0,
            tool_calls: 0,
            unusable_replies: 0,
            identical_calls: 0,
            retries: BTreeMap::new(),
            shown: Shown::of(messages, start),
            elapsed_ms: 0,
            is_timed: false,
            is_extracting: false,
            queued: Vec::new(),
            pushed: 0,
            tool_choice: ToolChoice::Auto,
            has_called: false,
            ended_by: None,
            last_request: None,
        }
    }

    /// Whether the next reply must be the answer.
    pub(super) fn must_answer(&self) -> bool {
        self.is_extracting || self.last_request.is_some()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives references")]
fn is_zero(value: &usize) -> bool {
    *value == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives references")]
pub(super) fn is_false(value: &bool) -> bool {
    !value
}

pub(super) fn is_auto(choice: &ToolChoice) -> bool {
    *choice == ToolChoice::Auto
}
