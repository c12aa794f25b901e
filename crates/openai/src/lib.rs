#![doc = include_str!("../README.md")]

#[cfg(feature = "client")]
mod client;
mod format;
pub mod history;
#[cfg(feature = "async-openai")]
pub mod interop;
mod reply;
pub mod responses;
mod wire;

#[cfg(feature = "client")]
pub use client::{
    BuildError, ChatCompletions, ChatCompletionsBuilder, HttpService, ModelBuilder, Provider, Responses,
    ResponsesBuilder, Timeouts, UnknownProvider,
};
pub use format::{
    EncodedTools, encode_message, encode_messages, encode_strict_tool, encode_strict_tools, encode_tool,
    encode_tool_for_target, encode_tools, encode_tools_for_target,
};
#[cfg(feature = "client")]
pub use haft_http::model::BuildError as HttpBuildError;
pub use reply::{decode_message, decode_response, decode_tool_calls};
