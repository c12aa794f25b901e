//! The Rust of the chapter about langchain-rust in the book, as doctests. They are here and not in
//! `tests`, so that only this example depends on `langchain-rust`.

#[doc = include_str!("../../../docs/src/langchain.md")]
mod langchain {}
