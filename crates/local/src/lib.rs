#![doc = include_str!("../README.md")]

mod constraint;
mod dialogue;
mod engine;
mod error;
mod gguf;
mod guide;
mod model;
mod network;
#[cfg(feature = "progress")]
mod progress;
mod respond;
mod sampler;
mod store;
mod template;
mod tokenizer;
mod worker;

pub use error::LoadError;
pub use model::LocalModel;
#[cfg(feature = "progress")]
pub use progress::{ModelProgress, OpenError};
#[cfg(feature = "download")]
pub use store::{Downloader, PullError, PullEvent, SourceError};
pub use store::{HubFile, KnownModel, ModelStore, NoHome, PackagedParts, chosen_file};
