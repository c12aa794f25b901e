//! Errors of opening a model.

#[cfg(feature = "download")]
use std::fmt;
use std::path::PathBuf;

#[cfg(feature = "download")]
use haft_core::text::ErrorChain;

#[cfg(feature = "download")]
use crate::{KnownModel, NoHome, PullError};

/// An error of loading a model file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The file does not exist.
    #[error("there is no model file at {}: download one, or check the path", path.display())]
    NotFound {
        /// The path.
        path: PathBuf,
    },
    /// The file cannot be read.
    #[error("the model file {} cannot be read: check its permissions", path.display())]
    Unreadable {
        /// The path.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The file is not a GGUF file.
    #[error("{} is not a GGUF model file ({reason}): this engine reads GGUF only", path.display())]
    NotGguf {
        /// The path.
        path: PathBuf,
        /// The error in its header.
        reason: String,
    },
    /// The GGUF file is truncated, or lacks a required entry.
    #[error("the model file {} is damaged or incomplete: {reason}; download it again", path.display())]
    Damaged {
        /// The path.
        path: PathBuf,
        /// The missing or unreadable entry.
        reason: String,
    },
    /// The architecture is not supported.
    #[error(
        "the model is of the architecture `{found}`, and this engine runs {supported}: choose another file"
    )]
    Architecture {
        /// The file's `general.architecture`.
        found: String,
        /// The supported architectures.
        supported: &'static str,
    },
    /// The architecture is supported, but not in this variant.
    #[error("the model uses {what}, and this engine does not support it: choose another file")]
    Variant {
        /// The unsupported part.
        what: String,
    },
    /// The tokenizer is not supported.
    #[error("the model's tokenizer cannot be used: {reason}; choose a file with a byte-level BPE tokenizer")]
    Tokenizer {
        /// The reason.
        reason: String,
    },
    /// The chat template does not parse.
    #[error("the model's chat template cannot be used: {reason}")]
    Template {
        /// The error of the template engine.
        reason: String,
    },
    /// The thread of the model cannot be started.
    #[error("the thread of the model cannot be started")]
    Thread {
        /// The error of the system.
        source: std::io::Error,
    },
    /// Loading panicked.
    #[error("loading the model crashed: the file may be damaged; download it again")]
    Crashed,
}

/// An error of [`LocalModel::download`](crate::LocalModel::download) or
/// [`LocalModel::open_default`](crate::LocalModel::open_default).
///
/// The `Debug` text is the `Display` text with all causes, because a program prints it when `main`
/// returns the error.
#[cfg(feature = "download")]
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The name is not in the catalogue.
    #[error("there is no local model `{name}`: known are {}", known_names())]
    UnknownModel {
        /// The name.
        name: String,
    },
    /// The user has no folder for models.
    #[error(transparent)]
    NoHome(#[from] NoHome),
    /// The file cannot be downloaded.
    #[error(transparent)]
    Pull(#[from] PullError),
    /// The file in `HAFT_MODEL` cannot be loaded.
    #[error("HAFT_MODEL names a file that cannot be used; unset it to use the default model")]
    ConfiguredFile(#[source] LoadError),
    /// The downloaded file cannot be loaded.
    #[error(
        "the model cannot be used; try again: its file is then verified, and downloaded again if it is damaged"
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
