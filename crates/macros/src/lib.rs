#![doc = include_str!("../README.md")]
//!
//! # Structure
//!
//! One file per step:
//!
//! | file | step |
//! |---|---|
//! | `settings` | parse the settings in an attribute |
//! | `options`, `parameter` | interpret the settings of a function and of its parameters |
//! | `tool` | build the typed model of a tool |
//! | `check` | validate the model and collect all errors |
//! | `expand` | generate the code of a valid tool |
//! | `error_expansion` | generate the code of a tool with errors |
//! | `tools` | run these steps for each tool in an `impl` block |
//!
//! The generated code calls `haft_core::__private`, which contains the code common to all tools.

mod check;
mod docs;
mod error_expansion;
mod errors;
mod expand;
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
