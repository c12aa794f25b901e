#![doc = include_str!("../README.md")]

mod builder;
mod compute_device;
mod constraint;
mod conversation;
mod engine;
mod error;
#[cfg(test)]
#[path = "../tests/it/family_files.rs"]
mod family_files;
mod few_shot;
mod gguf;
mod grammar_schema;
mod model;
mod network;
mod prefix_cache;
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
pub use prefix_cache::PrefixCache;
pub use profile::PromptProfile;
#[cfg(feature = "progress")]
pub use progress::ModelProgressBar;
#[cfg(feature = "download")]
pub use store::{Downloader, PullError, PullEvent, PullSourceError};
pub use store::{HubFile, InvalidHubFile, KnownModel, ModelStore, NoHomeFolder, model_file_from_env};

/// Returns the number of tokens at the beginning that `left` and `right` have in common.
fn common_prefix_length(left: &[u32], right: &[u32]) -> usize {
    left.iter().zip(right).take_while(|(left, right)| left == right).count()
}
