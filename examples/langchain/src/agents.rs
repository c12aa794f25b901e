//! The same agent with langchain-rust, with haft, and with parts of both. The book compares the
//! files.

pub mod haft_agent;
pub mod haft_model;
pub mod haft_only;
pub mod langchain_only;
