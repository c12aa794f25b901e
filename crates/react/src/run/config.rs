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
    /// answer is text. For any other type, see [`declare_output`](Self::declare_output). Default:
    /// `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outputs: Option<Schema>,
    /// The required property of `outputs` that contains the output of the run, if the output is not
    /// an object. `None` means that the whole object is the output. Default: `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_property: Option<String>,
    /// The model request in which the model returns the declared outputs. Default: the request of
    /// the last step.
    pub output_strategy: OutputStrategy,
    /// The handling of a reply that gives the declared outputs beside other calls. Default: the
    /// answer ends the run, and the other calls are not executed.
    #[serde(skip_serializing_if = "EndStrategy::is_early")]
    pub end_strategy: EndStrategy,
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
    /// `true` if the run repairs calls and results of the earlier conversation that are not paired,
    /// for example after an import or a crash. The model requests then contain a failure for each
    /// call without a result, and omit each result without a call and each further result of a
    /// call. A separated result is moved directly after its call. The transcript stays unchanged.
    /// With `false`, a run with unpaired calls fails. Default: `false`.
    #[serde(skip_serializing_if = "is_false")]
    pub repair_history: bool,
    /// `true` if the driver [decides](super::Effect::Review) after the calls of each reply whether
    /// the run continues. Not used if a stop tool succeeded. Default: `false`.
    #[serde(skip_serializing_if = "is_false")]
    pub review_calls: bool,
    /// `true` if the driver [checks](super::Effect::CheckInput) new messages of the user before the
    /// next model request. Default: `false`.
    #[serde(skip_serializing_if = "is_false")]
    pub check_input: bool,
    /// `true` if the driver checks new messages of the user in parallel with the next model
    /// request. The reply is not applied before the driver has reported the outcome. Default:
    /// `false`.
    #[serde(skip_serializing_if = "is_false")]
    pub check_input_in_parallel: bool,
    /// The settings of model requests, such as the temperature.
    pub settings: ChatSettings,
    /// The selection of messages for model requests. By default, each request contains the whole
    /// conversation.
    pub context: ContextConfig,
    /// The maximum number of times that the model can make the same call, or the same cycle of
    /// calls, in a row with equal results. Calls to a
    /// [repeatable](haft_core::tool::ToolPolicy::repeatable) tool are not limited. The result of
    /// the last permitted call contains a warning for the model. One more repetition exceeds the
    /// limit, so [`limit_action`](Self::limit_action) applies. `None` means no limit. Default:
    /// [`limits::REPEATED_CALLS`].
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

/// The handling of a reply that gives the declared outputs with a call to
/// [`FINISH`](crate::dialect::FINISH) beside other calls.
///
/// The first valid answer is the answer of the run. Further answers are not used. An answer that
/// does not fit the schema gets the error as its result, and if no answer is valid, the other calls
/// are executed and the run continues. The transcript contains the whole reply, with one result for
/// each call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EndStrategy {
    /// The answer ends the run. The other calls are not executed, and their results contain the
    /// reason. No approvals are requested.
    #[default]
    Early,
    /// The other calls are executed first. Their failures do not change the answer. If a call needs
    /// a decision, the run is suspended. The answer then ends the run, also if a stop tool or a
    /// hand-off was called. The other calls are not executed if a limit forbids them or if the
    /// model must answer.
    Exhaustive,
}

impl EndStrategy {
    fn is_early(&self) -> bool {
        *self == Self::Early
    }
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
            output_property: None,
            output_strategy: OutputStrategy::default(),
            end_strategy: EndStrategy::default(),
            tool_choice: ToolChoice::Auto,
            stop_on: BTreeSet::new(),
            check_outputs: false,
            repair_history: false,
            review_calls: false,
            check_input: false,
            check_input_in_parallel: false,
            settings: ChatSettings::default(),
            context: ContextConfig::default(),
            max_repeated_calls: Some(limits::REPEATED_CALLS),
            max_output_retries: 2,
        }
    }
}
