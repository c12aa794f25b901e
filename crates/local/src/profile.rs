//! Prompt profiles: the presentation of tools by the chat template, or as tuned on a model.

use crate::template::Turn;
use crate::{KnownModel, examples};

/// The way in which tools are presented to a model.
///
/// A file of the catalogue, recognised by its SHA-256, has the profile that was tuned on it. Any
/// other file has the [tool format of its chat template](Self::template), whatever its architecture
/// is.
///
/// # Examples
///
/// ```no_run
/// use haft_local::{KnownModel, LocalModel, PromptProfile};
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// // Another quantisation of the default model is prompted as the default model is.
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
    /// The tool format of the file's chat template, or Hermes' format if the template does not know
    /// tools.
    pub const fn template() -> Self {
        Self(Strategy::Template)
    }

    /// The profile that was tuned on a model of the catalogue.
    pub fn of(model: &KnownModel) -> Self {
        model.profile.clone()
    }
}

/// The data of the strategy in [`examples`](crate::examples). All values were measured on the model
/// that has the profile; see ADR 4.
pub(crate) struct ExampleProfile {
    /// Identifies the profile.
    pub(crate) name: &'static str,
    /// The demonstration in front of each conversation with tools. The first turn is the system
    /// message.
    pub(crate) demonstration: fn() -> Vec<Turn>,
    /// Added to the logit of the end-of-sequence token where a reply either ends or has another
    /// call.
    pub(crate) no_call_bias: f32,
    /// Restricts the stated need of a call to consecutive words of the question.
    pub(crate) needs_quote_question: bool,
    /// Continues an answer that mentions nothing of a tool's result.
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

/// Measured on Qwen2.5-Coder-0.5B-Instruct: the bias is between 9 and 16 where a part of the
/// question is open, and between -10 and 3 where none is.
const NO_CALL_BIAS: f32 = 5.0;

/// Qwen2.5-Coder-Instruct in 0.5B and 1.5B, four bits.
pub(crate) const QWEN25_CODER: ExampleProfile = ExampleProfile {
    name: "qwen2.5-coder",
    demonstration: examples::demonstration,
    no_call_bias: NO_CALL_BIAS,
    needs_quote_question: true,
    completes_answers: true,
};
