use std::collections::BTreeSet;

use haft_core::{
    Schema,
    agent::RunLimits,
    limits,
    model::{ChatSettings, ToolChoice},
};
use serde::{Deserialize, Serialize};

use super::{data::is_default, is_auto, is_false};

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
    /// The names of the hand-off tools. A successful call to one of them
    /// [hands off](super::Effect::Handoff) the run to another agent, after all calls of the reply.
    /// Further hand-offs of one reply are denied. Default: none.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub handoff_tools: BTreeSet<String>,
    /// The maximum number of hand-offs. Further hand-offs are denied. Default:
    /// [`limits::HANDOFFS`].
    pub max_handoffs: u32,
    /// The data that hooks judge before the run uses it. Default: none.
    #[serde(skip_serializing_if = "is_default")]
    pub checks: Checks,
    /// `true` if the run repairs calls and results of the earlier conversation that are not paired,
    /// for example after an import or a crash. The model requests then contain a failure for each
    /// call without a result, and omit each result without a call and each further result of a
    /// call. A separated result is moved directly after its call. The transcript stays unchanged.
    /// With `false`, a run with unpaired calls fails. Default: `false`.
    #[serde(skip_serializing_if = "is_false")]
    pub repair_history: bool,
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

/// The data for which a run requests [`Effect::Check`](super::Effect::Check) before it uses the
/// data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Checks {
    /// New messages of the user, before the first request that contains them.
    pub input: bool,
    /// The calls of a reply, before one of them is executed.
    pub calls: bool,
    /// The calls of a reply with their results, before the next request. Not if a stop tool or a
    /// hand-off succeeded.
    pub results: bool,
    /// The answer, before the run ends. Not if the model refuses the task.
    pub answer: bool,
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

impl RunConfig {
    /// Returns the configuration with at most `max_handoffs` hand-offs.
    pub(crate) fn for_handoffs(&self, max_handoffs: u32) -> Self {
        Self { max_handoffs, ..self.clone() }
    }
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
            handoff_tools: BTreeSet::new(),
            max_handoffs: limits::HANDOFFS,
            checks: Checks::default(),
            repair_history: false,
            settings: ChatSettings::default(),
            context: ContextConfig::default(),
            max_repeated_calls: Some(limits::REPEATED_CALLS),
            max_output_retries: 2,
        }
    }
}

/// The configuration of the context: the part of the conversation that a model request contains.
///
/// Messages are omitted in whole segments: turns of earlier runs, and steps of this run. A step is
/// a reply with calls and all messages up to the next reply with calls. The input of this run and
/// its last step are always sent.
///
/// If the conversation was summarized, the latest summary is sent in place of the summarized
/// messages. Later runs of the conversation continue from this summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContextConfig {
    /// The maximum number of turns and steps in a model request, in total. Older turns and steps
    /// are omitted. 0 has the same effect as 1. Default: no maximum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latest: Option<usize>,
    /// The maximum number of tokens in a model request and its reply together. After a request that
    /// exceeds this maximum, messages are summarized or omitted before the next request. Default:
    /// no maximum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// The maximum number of times that the oldest turn or step is omitted because the context is
    /// too long. The count restarts with each reply. With 0, nothing is omitted for this reason.
    /// Default: 3.
    pub omissions: u32,
    /// `true` if a context that is too long is first [summarized](super::Effect::Compact), except
    /// for its last step. If the context is still too long, or cannot be summarized, the oldest
    /// turn or step is omitted. A summary is a model request, and counts towards the
    /// [limits](super::RunConfig::limits). Default: `false`.
    pub compaction: bool,
}

impl Default for ContextConfig {
    fn default() -> Self {
        Self { latest: None, tokens: None, omissions: 3, compaction: false }
    }
}
