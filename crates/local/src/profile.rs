//! Prompt profiles, which determine how tools are presented to a model.

use crate::template::Turn;
use crate::{KnownModel, few_shot};

/// A prompt profile, which determines how tools are presented to a model.
///
/// Models of the catalogue are recognized by their SHA-256 and have a tuned profile. Any other file
/// uses the [tool format of its chat template](Self::template).
///
/// # Examples
///
/// ```no_run
/// use haft_local::{KnownModel, LocalModel, PromptProfile};
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// // The Q8_0 file is not in the catalogue, but the profile of the default model fits it, too.
/// let profile = PromptProfile::for_model(KnownModel::default_model());
/// let model = LocalModel::builder().prompt_profile(profile).open("qwen2.5-coder-0.5b-q8_0.gguf").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptProfile(pub(crate) PromptStrategy);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PromptStrategy {
    /// Tools are presented in the format of the chat template, or in Hermes' format if the template
    /// does not support tools or rejects the conversation.
    Template,
    /// Tools are listed as function signatures, after a demonstration of tool calls. Before each
    /// call, the model states what it needs the call for.
    Examples(&'static ExampleProfile),
}

impl PromptProfile {
    /// Returns the profile that presents tools in the format of the file's chat template. If the
    /// template does not support tools or rejects the conversation, Hermes' format is used.
    pub const fn template() -> Self {
        Self(PromptStrategy::Template)
    }

    /// Returns the tuned profile of a model in the catalogue.
    pub fn for_model(model: &KnownModel) -> Self {
        model.profile.clone()
    }
}

/// A prompt profile with a demonstration, for the strategy in [`few_shot`](crate::few_shot). The
/// values in a profile were measured on the models that use it; see ADR 4.
pub(crate) struct ExampleProfile {
    /// The name of the profile. Profiles with the same name are equal.
    pub(crate) name: &'static str,
    /// Creates the turns of the demonstration, which precedes each conversation with tools. The
    /// first turn is the system message.
    pub(crate) demonstration: fn() -> Vec<Turn>,
    /// A bias for the logits of the end-of-sequence tokens. It is added wherever the model can
    /// either make another call or end its reply.
    pub(crate) end_of_calls_bias: f32,
    /// A bias for the log-probability of the choice that no tool fits.
    pub(crate) no_tool_bias: f32,
    /// The weight of the log-probability of a choice after a question without content, which is
    /// subtracted.
    pub(crate) prior_weight: f32,
    /// The weight of the words that a need and the description of a tool have in common.
    pub(crate) word_bias: f32,
    /// The minimum support of a value of an enumeration, or of a flag, that the words of the
    /// conversation do not name, or that the model omitted. The support is the log-odds of the
    /// value after the need, minus those after a question without content.
    pub(crate) min_implied_support: f32,
    /// The minimum support of a required value of an enumeration that the words of the conversation
    /// do not name. The user did not state a value with less support.
    pub(crate) min_required_support: f32,
    /// The minimum log-odds of such a value after the need.
    pub(crate) min_required_odds: f32,
    /// If `true`, the need for a call must be a quotation of consecutive words of the question.
    /// After tool results, or if the question is too long or has no words left to quote, the model
    /// uses its own words.
    pub(crate) quotes_question: bool,
    /// If `true`, the model continues an answer that does not mention all tool results. The number
    /// of continuations is at most the number of results minus one.
    pub(crate) continues_answers: bool,
}

impl PartialEq for ExampleProfile {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for ExampleProfile {}

impl std::fmt::Debug for ExampleProfile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// The value of [`ExampleProfile::end_of_calls_bias`] for Qwen2.5-Coder. In measurements with the
/// 0.5B-Instruct model, the logit of another call minus the logit of the end of the reply is 9 to
/// 16 if a part of the question still needs a call, and -10 to 3 if not. A bias of 5 separates the
/// two cases.
const NO_CALL_BIAS: f32 = 5.0;

/// The profile of Qwen2.5-Coder-Instruct with 0.5B parameters in four-bit quantization. Optional
/// values that this model invents have a support of up to 3.7, and required values of up to 1.6 (23
/// of 26 cases). Implied required values have 1.8 or more.
pub(crate) const QWEN25_CODER_0_5B: ExampleProfile = ExampleProfile {
    name: "qwen2.5-coder-0.5b",
    demonstration: few_shot::demonstration,
    end_of_calls_bias: NO_CALL_BIAS,
    no_tool_bias: 1.5,
    prior_weight: 0.75,
    word_bias: 1.0,
    min_implied_support: 4.0,
    min_required_support: 1.75,
    min_required_odds: -1.5,
    quotes_question: true,
    continues_answers: true,
};

/// The profile of Qwen2.5-Coder-Instruct with 1.5B parameters in four-bit quantization. Optional
/// values that this model invents have a support of up to 1.5, and implied values have 2.6 or more.
/// Required values that it invents have a support of up to 2.7 or log-odds of up to 1.7, and
/// implied values have at least 3.2 and 2.9 (with one exception of each kind).
pub(crate) const QWEN25_CODER_1_5B: ExampleProfile = ExampleProfile {
    name: "qwen2.5-coder-1.5b",
    min_implied_support: 2.0,
    min_required_support: 2.9,
    min_required_odds: 2.0,
    ..QWEN25_CODER_0_5B
};
