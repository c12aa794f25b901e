//! The same agent with langchain-rust, with haft, and with both. The book compares the three files.

pub mod both;
pub mod haft_only;
pub mod langchain_only;
