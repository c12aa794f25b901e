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

/// The configuration of a run. It is plain data, and a saved run contains a copy of it.
///
/// # Examples
///
/// ```
/// use haft_core::agent::RunLimits;
/// use haft_react::{LimitAction, RunConfig};
///
/// let config = RunConfig {
///     limits: RunLimits { requests: Some(10), ..RunLimits::default() },
///     limit_action: LimitAction::Answer,
///     ..RunConfig::default()
/// };
/// assert_eq!(config.max_output_retries, 2);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunConfig {
    /// The limits of the run, for example on requests, tokens and time.
    pub limits: RunLimits,
    /// The action of the run when it reaches a limit. Default: the run fails.
    pub limit_action: LimitAction,
    /// The schema of the structured input. The schema must describe a JSON object, and the last new
    /// message must contain [JSON content](haft_core::content::Content::json) that is valid for
    /// this schema. `None` accepts any message. Default: `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Schema>,
    /// The schema of the answer. The schema must describe a JSON object. `None` means that the
    /// answer is text. Default: `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outputs: Option<Schema>,
    /// The model request in which the model returns the declared outputs. Default: the request of
    /// the last step.
    pub output_strategy: OutputStrategy,
    /// The tool choice of model requests. After the model has made the required call, later
    /// requests use [`ToolChoice::Auto`]. Default: [`ToolChoice::Auto`].
    #[serde(skip_serializing_if = "is_auto")]
    pub tool_choice: ToolChoice,
    /// The names of the stop tools. A successful call to a stop tool ends the run, and its result
    /// is the answer. Default: none.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub stop_on: BTreeSet<String>,
    /// `true` if the run accepts an output only after the driver has
    /// [validated](super::Effect::Check) it. Default: `false`.
    #[serde(skip_serializing_if = "is_false")]
    pub check_outputs: bool,
    /// The settings of model requests, such as the temperature.
    pub settings: ChatSettings,
    /// The selection of messages for model requests. By default, each request contains the whole
    /// conversation.
    pub context: ContextConfig,
    /// The maximum number of times that the model can make the same call, or the same cycle of
    /// calls, in a row. The result of the last permitted call contains a warning for the model. One
    /// more repetition exceeds the limit, so [`limit_action`](Self::limit_action) applies. `None`
    /// means no limit. Default: [`limits::REPEATED_CALLS`].
    pub max_repeated_calls: Option<u32>,
    /// The maximum number of consecutive rejected replies. A reply is rejected if it is empty,
    /// unreadable or interrupted, has the wrong form, ignores the tool choice, or fails the
    /// validation. One more rejected reply ends the run with an error. A reply that was cut off by
    /// its token limit or by a content filter ends the run immediately. Default: 2.
    pub max_output_retries: u32,
}

/// The model request in which the model returns the declared outputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OutputStrategy {
    /// The request of the last step. The reply that ends the run contains the outputs, for example
    /// as the arguments of a call to `finish`.
    #[default]
    Finish,
    /// A separate request after the last step, with all steps in its context. Some models perform
    /// better if they do not have to call tools and format outputs in the same request.
    Extraction,
}

/// The action of a run when it reaches a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LimitAction {
    /// The run fails with [`LimitReached`](haft_core::agent::AgentErrorKind::LimitReached).
    #[default]
    Fail,
    /// The run makes one final request, in which the model must answer without tool calls. The stop
    /// reason is [`StopReason::LimitReached`](haft_core::agent::StopReason::LimitReached).
    Answer,
}

impl Default for RunConfig {
    fn default() -> Self {
        Self {
            limits: RunLimits::default(),
            limit_action: LimitAction::default(),
            inputs: None,
            outputs: None,
            output_strategy: OutputStrategy::default(),
            tool_choice: ToolChoice::Auto,
            stop_on: BTreeSet::new(),
            check_outputs: false,
            settings: ChatSettings::default(),
            context: ContextConfig::default(),
            max_repeated_calls: Some(limits::REPEATED_CALLS),
            max_output_retries: 2,
        }
    }
}
