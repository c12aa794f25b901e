use haft_core::model::{ChatRequest, ToolChoice};
use haft_http::model::BuildError;
use serde::Serialize;

use super::{
    MessagesApi, OptionalParams,
    family::{Family, ThinkingModes},
};
use crate::format::Conversation;

/// The lowest budget of manual thinking that the API accepts, in tokens.
const MIN_BUDGET: u32 = 1_024;

/// The tokens of the answer after manual thinking, in the default of `max_tokens`.
const ANSWER_TOKENS: u32 = 8_192;

/// The thinking of a model before its answer and between calls. The API rejects thinking in some
/// requests, which are then sent without this setting:
///
/// - The request forces a call ([`ToolChoice::Required`] or [`ToolChoice::Tool`]).
/// - Thinking has a budget, and the request has the results of calls that another model made, or
///   this model without thinking.
/// - Thinking has a budget, and the limit of the reply is at most 1,024 tokens.
///
/// `temperature` and `top_p` are omitted from requests with thinking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Thinking {
    /// The model does not think. Some models cannot be stopped from thinking.
    Off,
    /// The model decides when and how much it thinks. Claude 4.6 and later.
    Adaptive,
    /// The model thinks for at most this number of tokens, at least 1,024. Claude 3.7 to 4.6. In a
    /// request with a limit of at most this number, the budget is half of the limit, and the model
    /// does not think if that is less than 1,024.
    Budget(u32),
}

/// The `thinking` field of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum WireThinking {
    Disabled,
    Adaptive,
    Enabled { budget_tokens: u32 },
}

impl Thinking {
    /// Checks that a model of `family` accepts this setting.
    pub(super) fn check(self, family: Family) -> Result<(), BuildError> {
        let modes = family.thinking;
        let (is_valid, expected) = match self {
            Self::Off => (true, ""),
            Self::Adaptive => (
                !matches!(modes, ThinkingModes::None | ThinkingModes::Manual),
                "the model has no adaptive thinking: set a budget, or nothing",
            ),
            Self::Budget(tokens) if tokens < MIN_BUDGET => (false, "the budget is at least 1024 tokens"),
            Self::Budget(_) => (
                !matches!(modes, ThinkingModes::None | ThinkingModes::Adaptive),
                "the model has no thinking with a budget: use `Thinking::Adaptive` and `effort`",
            ),
        };
        if is_valid {
            return Ok(());
        }
        Err(BuildError::InvalidSetting { name: "thinking", value: format!("{self:?}"), expected })
    }

    /// Returns the default of `max_tokens` for a model of `family`.
    pub(super) fn default_max_tokens(setting: Option<Self>, family: Family) -> u32 {
        match setting {
            Some(Self::Budget(budget)) => family
                .max_tokens
                .max(budget.saturating_add(ANSWER_TOKENS))
                .min(family.highest_max_tokens.max(family.max_tokens)),
            _ => family.max_tokens,
        }
    }
}

impl WireThinking {
    /// Returns the field for `request`, whose reply has at most `max_tokens`. `None` if the field is
    /// omitted.
    pub(super) fn of(
        api: &MessagesApi,
        request: &ChatRequest,
        conversation: &Conversation,
        max_tokens: u32,
        omitted: OptionalParams,
    ) -> Option<Self> {
        let thinking = api.settings.thinking.filter(|_| !omitted.has(OptionalParams::THINKING))?;
        let forces_call = matches!(request.tool_choice, ToolChoice::Required | ToolChoice::Tool(_));
        match thinking {
            Thinking::Off if api.family.thinking == ThinkingModes::None => None,
            Thinking::Off => Some(Self::Disabled),
            _ if forces_call && !request.tools.is_empty() => None,
            Thinking::Adaptive => Some(Self::Adaptive),
            Thinking::Budget(_) if conversation.continues_unthought_calls() => None,
            // The budget is less than `max_tokens`. A small limit leaves half of it for the answer.
            Thinking::Budget(budget) => Some(if budget < max_tokens { budget } else { max_tokens / 2 })
                .filter(|budget| *budget >= MIN_BUDGET)
                .map(|budget_tokens| Self::Enabled { budget_tokens }),
        }
    }

    pub(super) fn is_on(self) -> bool {
        self != Self::Disabled
    }
}
