#![doc = include_str!("../README.md")]

#[cfg(feature = "client")]
mod client;
mod format;
pub mod history;
mod reply;

#[cfg(feature = "client")]
pub use client::{Messages, MessagesBuilder, Thinking};
pub use format::{decode_tool_calls, encode_strict_tool, encode_tool, encode_tool_results, encode_tools};
#[cfg(feature = "client")]
pub use haft_http::model::{BuildError, HttpService, Timeouts};
