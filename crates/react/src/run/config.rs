use std::collections::BTreeSet;

use haft_core::{
    Schema,
    agent::RunLimits,
    limits,
    model::{ChatSettings, ToolChoice},
};
use serde::{Deserialize, Serialize};

use super::{
    ContextConfig,
    head::{is_auto, is_false},
};

/// How runs behave. Plain data: a run that is saved has its own copy.
///
/// # Examples
///
/// ```
/// use haft_core::agent::RunLimits;
/// use haft_react::{AtLimit, RunConfig};
///
/// let config = RunConfig {
///     limits: RunLimits { requests: Some(10), ..RunLimits::default() },
///     at_limit: AtLimit::Answer,
///     ..RunConfig::default()
/// };
/// assert_eq!(config.unusable_replies, 2);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunConfig {
    /// How much a run may use.
    pub limits: RunLimits,
    /// What happens when it is used up. Default: the run fails.
    pub at_limit: AtLimit,
    /// What a run is asked, as data: an object of this schema, as [JSON content](haft_core::content::Content::json) of the new
    /// message. Default: whatever is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Schema>,
    /// The answer as data: an object of this schema. Default: the answer is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outputs: Option<Schema>,
    /// When the outputs are asked for. Default: at the end of the work.
    pub outputs_by: OutputsBy,
    /// Whether the model may, must or must not call. What it must call, it must call once in a run: when it has called, it
    /// decides by itself. Default: it decides.
    #[serde(skip_serializing_if = "is_auto")]
    pub tool_choice: ToolChoice,
    /// The tools that end a run: when one was done, its result is the answer. Default: none.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub stop_on: BTreeSet<String>,
    /// Whether an answer is [checked](super::Effect::Check) before it is taken. Default: no.
    #[serde(skip_serializing_if = "is_false")]
    pub check_outputs: bool,
    /// How replies are made.
    pub settings: ChatSettings,
    /// How much of the conversation the model is shown.
    pub context: ContextConfig,
    /// How often in a row the same calls are tolerated: at the last time the model is told, and the next ends the
    /// run. `None` is without end. Default: [`limits::IDENTICAL_CALLS`].
    pub identical_calls: Option<u32>,
    /// How many replies in a row may be empty, unreadable, cut, of the wrong form or refused by a validator before the run fails. Default: 2.
    pub unusable_replies: u32,
}

/// When a model is asked for its answer as data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputsBy {
    /// It gives them as the arguments of its end.
    #[default]
    Finish,
    /// It ends when it knows enough, and is then asked for them in a request of its own, with the whole way before it: for
    /// models that do one thing better than two.
    Extraction,
}

/// What happens when a limit of a run is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AtLimit {
    /// The run fails with [`LimitReached`](haft_core::agent::AgentErrorKind::LimitReached).
    #[default]
    Fail,
    /// The model is asked once more and must answer with what it has; the answer says
    /// [`StopReason::LimitReached`](haft_core::agent::StopReason::LimitReached).
    Answer,
}

impl Default for RunConfig {
    fn default() -> Self {
        Self {
            limits: RunLimits::default(),
            at_limit: AtLimit::default(),
            inputs: None,
            outputs: None,
            outputs_by: OutputsBy::default(),
            tool_choice: ToolChoice::Auto,
            stop_on: BTreeSet::new(),
            check_outputs: false,
            settings: ChatSettings::default(),
            context: ContextConfig::default(),
            identical_calls: Some(limits::IDENTICAL_CALLS),
            unusable_replies: 2,
        }
    }
}
