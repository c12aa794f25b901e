#![doc = include_str!("../README.md")]

pub mod call;
pub mod content;
mod hosted;
pub mod message;
mod timestamp;
pub mod usage;

pub use call::{ToolCall, ToolError, ToolOutput, ToolResult};
pub use message::{Message, Transcript};
pub use timestamp::Timestamp;
