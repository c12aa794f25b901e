#![doc = include_str!("../README.md")]
//!
//! From attributes to code, one file a step: `settings` are the grammar of an attribute, `options` and
//! `parameter` give them meaning, `tool` puts the typed model together, `check` collects every mistake, `expand`
//! writes the code, and `fallback` what stands in for it when there were mistakes. `tools` goes the same way for each
//! method of an `impl` block. What all tools have in common is
//! not written out each time: it is in `haft_core::__private`.

mod check;
mod docs;
mod errors;
mod expand;
mod fallback;
mod function;
mod name;
mod options;
mod ownership;
mod parameter;
mod settings;
mod tool;
mod tools;

use proc_macro::TokenStream;

/// Implemented by `haft-macros`, and used as `haft_core::tools`.
#[proc_macro_attribute]
pub fn tools(options: TokenStream, item: TokenStream) -> TokenStream {
    tools::derive(options.into(), item.into()).into()
}

/// Implemented by `haft-macros`, and used as `haft_core::tool`.
#[proc_macro_attribute]
pub fn tool(options: TokenStream, item: TokenStream) -> TokenStream {
    tool::derive(options.into(), item.into()).into()
}
