#![doc = include_str!("../README.md")]

#[cfg(feature = "client")]
mod client;
mod failure;
mod format;
mod reply;
mod wire;

#[cfg(feature = "client")]
pub use client::{BuildError, ChatCompletions, ChatCompletionsBuilder, Timeouts};
pub use format::{Tools, message, messages, tool, tools};
pub use reply::{assistant_message, response, tool_calls};
