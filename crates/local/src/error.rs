//! Errors from downloading and loading a model file.

#[cfg(feature = "download")]
use std::fmt;
use std::path::PathBuf;

#[cfg(feature = "download")]
use haft_core::text::ErrorChain;

#[cfg(feature = "download")]
use crate::{KnownModel, NoHomeFolder, PullError};

/// An error from loading a model file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The model file does not exist.
    #[error("there is no model file at {}: download one, or check the path", path.display())]
    NotFound {
        /// The path of the model file.
        path: PathBuf,
    },
    /// The model file cannot be read.
    #[error("the model file {} cannot be read: check its permissions", path.display())]
    Unreadable {
        /// The path of the model file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The path is a directory, or the file has no valid GGUF header.
    #[error("{} is not a GGUF model file ({reason}): choose a GGUF file", path.display())]
    NotGguf {
        /// The path of the model file.
        path: PathBuf,
        /// The error of the GGUF parser, or `it is a directory`.
        reason: String,
    },
    /// The GGUF file is truncated, or a required metadata entry or tensor is missing or invalid.
    #[error("the model file {} is damaged or incomplete: {reason}; download it again", path.display())]
    Damaged {
        /// The path of the model file.
        path: PathBuf,
        /// A description of the metadata entry or tensor that is missing or invalid.
        reason: String,
    },
    /// The model architecture is not supported.
    #[error("the model architecture `{found}` is not supported: choose a file with one of {supported}")]
    UnsupportedArchitecture {
        /// The value of the metadata entry `general.architecture` in the file.
        found: String,
        /// The names of the supported architectures.
        supported: &'static str,
    },
    /// The model architecture is supported, but the file uses an unsupported variant of it, such as
    /// a mixture of experts.
    #[error("the model uses {feature}, which is not supported: choose a file with {supported}")]
    UnsupportedFeature {
        /// A description of the unsupported feature, such as `a mixture of experts`.
        feature: String,
        /// A description of what is supported instead, such as `a dense model`.
        supported: &'static str,
    },
    /// The tokenizer of the model is invalid or not supported.
    #[error(
        "the model's tokenizer cannot be used: {reason}; choose a file with a byte-level BPE or SentencePiece tokenizer"
    )]
    InvalidTokenizer {
        /// A description of the problem, such as the error of the tokenizer library.
        reason: String,
    },
    /// The chat template of the model cannot be parsed.
    #[error("the model's chat template cannot be used: {reason}; choose another file")]
    InvalidTemplate {
        /// The error of the template engine.
        reason: String,
    },
    /// The GPU does not exist, or its driver is missing or does not work.
    #[cfg(any(feature = "cuda", feature = "metal"))]
    #[error("GPU {index} cannot be used: {reason}; check its index and its driver, or use the processor")]
    GpuUnavailable {
        /// The index of the GPU, from 0.
        index: usize,
        /// The error of the tensor library.
        reason: String,
    },
    /// The operating system could not start the thread that runs the model.
    #[error("the thread of the model cannot be started")]
    ThreadNotSpawned {
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The loader panicked, for example because of damaged tensors.
    #[error("loading the model crashed: the file may be damaged; download it again")]
    Crashed,
}

/// An error from [`LocalModel::download`](crate::LocalModel::download), from
/// [`LocalModel::open_default`](crate::LocalModel::open_default), or from the same methods of
/// [`LocalModelBuilder`](crate::LocalModelBuilder).
///
/// The `Debug` output is the `Display` text with all causes, because Rust prints the `Debug` output
/// of an error that `main` returns.
#[cfg(feature = "download")]
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The catalogue has no model with the requested name.
    #[error("there is no local model `{name}`: known are {}", known_names())]
    UnknownModel {
        /// The requested model name.
        name: String,
    },
    /// There is no folder for downloaded models: neither `HAFT_CACHE` nor a home folder is set.
    #[error(transparent)]
    NoHomeFolder(#[from] NoHomeFolder),
    /// The model file cannot be downloaded.
    #[error(transparent)]
    Pull(#[from] PullError),
    /// The file at the path in the environment variable `HAFT_MODEL` cannot be loaded.
    #[error("HAFT_MODEL names a file that cannot be used; unset it to use the default model")]
    ConfiguredFile(#[source] LoadError),
    /// The downloaded file of a catalogue model cannot be loaded.
    #[error(
        "the downloaded model cannot be loaded; try again: its file is then verified, and downloaded again if it is damaged"
    )]
    DownloadedFile(#[source] LoadError),
}

#[cfg(feature = "download")]
impl fmt::Debug for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&ErrorChain(self), f)
    }
}

#[cfg(feature = "download")]
fn known_names() -> String {
    let names: Vec<_> = KnownModel::all().iter().map(|model| model.name).collect();
    names.join(", ")
}
