//! A language model in the process.

mod constraint;
mod dialogue;
mod engine;
mod error;
mod gguf;
mod guide;
mod model;
mod network;
mod respond;
mod sampler;
mod template;
mod tokenizer;
mod worker;

pub use error::LoadError;
pub use model::LocalModel;
