#![doc = include_str!("../README.md")]

mod builder;
mod constraint;
mod conversation;
mod engine;
mod error;
mod few_shot;
mod gguf;
mod grammar_schema;
mod model;
mod network;
mod profile;
#[cfg(feature = "progress")]
mod progress;
mod respond;
mod sampler;
mod store;
mod template;
mod tokenizer;
mod worker;

pub use builder::{LocalModelBuilder, ModelEvent};
pub use error::LoadError;
#[cfg(feature = "download")]
pub use error::OpenError;
pub use model::LocalModel;
pub use profile::PromptProfile;
#[cfg(feature = "progress")]
pub use progress::ModelProgressBar;
#[cfg(feature = "download")]
pub use store::{Downloader, PullError, PullEvent, PullSourceError};
pub use store::{HubFile, KnownModel, ModelStore, NoHomeFolder, model_file_from_env};
