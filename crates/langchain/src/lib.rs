#![doc = include_str!("../README.md")]

mod agent;
mod chain;
mod channel_stream;
mod documents;
mod llm;
mod memory;
mod message;
mod model;
mod source;
mod tool;
mod toolset;

pub use agent::{HaftAgent, external_tools};
pub use chain::{HaftChain, LangChainAgent, chain_tool};
pub use documents::{loader_tool, retriever_tool};
pub use llm::HaftLlm;
pub use memory::{HaftMemory, append_to_memory, read_memory};
pub use message::{MessageError, from_langchain, to_langchain};
pub use model::{LangChainModel, StreamFormat};
pub use source::LangChainSource;
pub use tool::LangChainTool;
pub use toolset::ToolsetExt;

/// The supported version of the crate `langchain-rust`.
pub use langchain_rust;
