#![doc = include_str!("../README.md")]

mod channel_stream;
mod llm;
mod memory;
mod message;
mod model;
mod source;
mod tool;
mod toolset;

pub use llm::HaftLlm;
pub use memory::{HaftMemory, append_to_memory, read_memory};
pub use message::{MessageError, from_langchain, to_langchain};
pub use model::{LangChainModel, StreamFormat};
pub use source::LangChainSource;
pub use tool::LangChainTool;
pub use toolset::ToolsetExt;

/// The crate `langchain-rust`, in the version that this crate supports.
pub use langchain_rust;
