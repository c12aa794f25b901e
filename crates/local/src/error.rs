//! Why a model cannot be loaded.

use std::path::PathBuf;

/// Why a model file cannot be used, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// There is no such file.
    #[error("there is no model file at {}: download one, or check the path", path.display())]
    NotFound {
        /// The path that was asked for.
        path: PathBuf,
    },
    /// The file is there but the system does not let it be read.
    #[error("the model file {} cannot be read: check its permissions", path.display())]
    Unreadable {
        /// The path that was asked for.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is not a GGUF file.
    #[error("{} is not a GGUF model file ({reason}): this engine reads GGUF only", path.display())]
    NotGguf {
        /// The path that was asked for.
        path: PathBuf,
        /// What is wrong with its first bytes.
        reason: String,
    },
    /// The file is a GGUF file that is cut short or lacks what a chat model needs.
    #[error("the model file {} is damaged or incomplete: {reason}; download it again", path.display())]
    Damaged {
        /// The path that was asked for.
        path: PathBuf,
        /// What is missing or unreadable.
        reason: String,
    },
    /// The file holds a model of a family that this engine does not run.
    #[error(
        "the model is of the architecture `{found}`, and this engine runs {supported}: choose another file"
    )]
    Architecture {
        /// The file's `general.architecture`.
        found: String,
        /// The architectures that can be run.
        supported: &'static str,
    },
    /// The model is of a known family, in a variant that this engine would compute wrongly.
    #[error("the model uses {what}, which this engine does not run: choose another file")]
    Variant {
        /// The unsupported part.
        what: String,
    },
    /// The file's tokenizer is of a kind that is not supported.
    #[error("the model's tokenizer cannot be used: {reason}; choose a file with a byte-level BPE tokenizer")]
    Tokenizer {
        /// What is wrong with it.
        reason: String,
    },
    /// The file's chat template does not parse.
    #[error("the model's chat template cannot be used: {reason}")]
    Template {
        /// The template engine's complaint.
        reason: String,
    },
    /// The thread that would run the model could not be started.
    #[error("the thread of the model cannot be started")]
    Thread {
        /// What the system said.
        source: std::io::Error,
    },
    /// The thread that loads the model ended without a word.
    #[error("loading the model crashed: the file may be damaged; download it again")]
    Crashed,
}
