//! The agents of the comparison in the book, and the Rust of the chapter about langchain-rust as
//! doctests. The doctests are not in `tests`, so that only this example depends on
//! `langchain-rust`.

pub mod agents;

#[doc = include_str!("../../../docs/src/langchain.md")]
mod langchain {}
