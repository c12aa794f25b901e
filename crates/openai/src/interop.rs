//! Interoperation with [`async-openai`](async_openai) 0.43. Requires the feature `async-openai`.
//!
//! The functions convert tools, messages, calls and usage between `async-openai` and haft, in both
//! directions. [`AsyncOpenAi`] is a [`ChatModel`](haft_core::ChatModel) that sends its requests
//! through an `async_openai::Client` with any `Config`.
//!
//! The conversions are functions, because a `From` implementation is impossible: the types of both
//! sides are defined in other crates. `to_…` converts to an `async-openai` type, and `from_…` to a
//! haft type.
//!
//! # Examples
//!
//! An existing agent loop calls haft's tools. The whole program is in the package
//! `examples/async-openai-tools`.
//!
//! ```
//! use async_openai::types::chat::{ChatCompletionRequestMessage, ChatCompletionResponseMessage};
//! use haft_core::{Pipeline, pipeline::Batch, toolset::ToolList};
//! use haft_openai::interop::{InteropError, from_tool_calls, to_tool_message};
//!
//! /// Executes the tool calls of a reply and adds their results to the conversation.
//! async fn call_tools(
//!     tools: &ToolList,
//!     reply: &ChatCompletionResponseMessage,
//!     messages: &mut Vec<ChatCompletionRequestMessage>,
//! ) -> Result<(), InteropError> {
//!     let calls = from_tool_calls(reply.tool_calls.iter().flatten())?;
//!     let batch = Batch::new(tools.clone(), calls);
//!     for outcome in Pipeline::new().call_all(batch).await {
//!         messages.push(to_tool_message(&outcome.into_result()).into());
//!     }
//!     Ok(())
//! }
//! ```

mod convert;
mod error;
mod model;
mod stream;

pub use convert::{
    from_messages, from_response, from_response_message, from_tool, from_tool_calls, from_usage, to_message,
    to_messages, to_tool, to_tool_call, to_tool_message, to_tools, to_usage,
};
pub use error::InteropError;
pub use model::AsyncOpenAi;
