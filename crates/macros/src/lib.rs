#![doc = include_str!("../README.md")]
//!
//! # Structure
//!
//! One file per step:
//!
//! | file | step |
//! |---|---|
//! | `settings` | grammar of an attribute |
//! | `options`, `parameter` | meaning of the attributes of a function and its parameters |
//! | `tool` | typed model of a tool |
//! | `check` | validation of the typed model, with all mistakes as errors |
//! | `expand` | generated code |
//! | `fallback` | generated code if there are errors |
//! | `tools` | the same steps for each method of an `impl` block |
//!
//! Code that is the same for all tools is in `haft_core::__private`.

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

/// The implementation of the attribute `#[tools]`, which is documented in `haft_core::tools`.
#[proc_macro_attribute]
pub fn tools(options: TokenStream, item: TokenStream) -> TokenStream {
    tools::derive(options.into(), item.into()).into()
}

/// The implementation of the attribute `#[tool]`, which is documented in `haft_core::tool`.
#[proc_macro_attribute]
pub fn tool(options: TokenStream, item: TokenStream) -> TokenStream {
    tool::derive(options.into(), item.into()).into()
}
