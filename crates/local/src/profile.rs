//! Prompt profiles, which determine how tools are presented to a model.

use crate::template::Turn;
use crate::{KnownModel, few_shot};

/// A prompt profile, which determines how tools are presented to a model.
///
/// The two Qwen2.5-Coder models of the catalogue are recognized by their SHA-256 and have a tuned
/// profile. Any other file uses the [tool format of its chat template](Self::template).
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

    /// Returns the profile of a model in the catalogue.
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

/// The profile of Qwen2.5-Coder-Instruct in four-bit quantization, with 0.5B or 1.5B parameters.
pub(crate) const QWEN25_CODER: ExampleProfile = ExampleProfile {
    name: "qwen2.5-coder",
    demonstration: few_shot::demonstration,
    // The logit of another call minus the logit of the end of the reply is 9 to 16 if a part of the
    // question still needs a call, and -10 to 3 if not (0.5B).
    end_of_calls_bias: 5.0,
    no_tool_bias: 1.5,
    prior_weight: 0.75,
};
