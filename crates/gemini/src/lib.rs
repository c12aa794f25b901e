#![doc = include_str!("../README.md")]

#[cfg(feature = "client")]
mod client;
mod format;
#[cfg(feature = "client")]
mod reply;

#[cfg(feature = "client")]
pub use client::{
    Api, Gemini, GeminiBuilder, HarmBlockThreshold, HarmCategory, SafetySetting, ThinkingLevel,
};
pub use format::{
    decode_tool_calls, encode_openapi_tool, encode_openapi_tools, encode_tool, encode_tool_results,
    encode_tools,
};
#[cfg(feature = "client")]
pub use haft_http::model::{BuildError, HttpService, Timeouts};
