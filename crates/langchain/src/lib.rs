#![doc = include_str!("../README.md")]

mod source;
mod tool;
mod toolset;

pub use source::LangChainSource;
pub use tool::LangChainTool;
pub use toolset::ToolsetExt;

/// The crate `langchain-rust`, in the version that this crate supports.
pub use langchain_rust;
