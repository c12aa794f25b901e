//! Prompt profiles: the presentation of tools, by the chat template or tuned for a model.

use crate::template::Turn;
use crate::{KnownModel, examples};

/// The presentation of tools to a model.
///
/// A file of the catalogue, recognised by its SHA-256, has a tuned profile. Any other file of any
/// architecture has the [tool format of its chat template](Self::template).
///
/// # Examples
///
/// ```no_run
/// use haft_local::{KnownModel, LocalModel, PromptProfile};
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// // Another quantisation of the default model gets the same prompts.
/// let profile = PromptProfile::of(KnownModel::default_model());
/// let model = LocalModel::builder().prompt_profile(profile).open("qwen2.5-coder-0.5b-q8_0.gguf").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptProfile(pub(crate) Strategy);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Strategy {
    /// The tool format of the chat template.
    Template,
    /// Worked examples and planned calls.
    Examples(&'static ExampleProfile),
}

impl PromptProfile {
    /// The tool format of the file's chat template, or Hermes' format if the template has no tool
    /// support.
    pub const fn template() -> Self {
        Self(Strategy::Template)
    }

    /// The tuned profile of a model of the catalogue.
    pub fn of(model: &KnownModel) -> Self {
        model.profile.clone()
    }
}

/// The data of the strategy in [`examples`](crate::examples), measured on the models of the
/// profile; see ADR 4.
pub(crate) struct ExampleProfile {
    /// Identifies the profile.
    pub(crate) name: &'static str,
    /// The demonstration before each conversation with tools. The first turn is the system
    /// message.
    pub(crate) demonstration: fn() -> Vec<Turn>,
    /// Added to the logit of the end-of-sequence token at the possible positions of a further call.
    pub(crate) no_call_bias: f32,
    /// Restricts the stated need of a call to consecutive words of the question.
    pub(crate) needs_quote_question: bool,
    /// Continues an answer until it mentions each tool result.
    pub(crate) completes_answers: bool,
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

/// Measured on Qwen2.5-Coder-0.5B-Instruct: the logit difference is between 9 and 16 if a part of
/// the question is open, and between -10 and 3 otherwise.
const NO_CALL_BIAS: f32 = 5.0;

/// Qwen2.5-Coder-Instruct in 0.5B and 1.5B, four bits.
pub(crate) const QWEN25_CODER: ExampleProfile = ExampleProfile {
    name: "qwen2.5-coder",
    demonstration: examples::demonstration,
    no_call_bias: NO_CALL_BIAS,
    needs_quote_question: true,
    completes_answers: true,
};
