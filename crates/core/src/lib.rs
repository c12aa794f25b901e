#![doc = include_str!("../README.md")]

#[doc(hidden)]
pub mod __private;
pub mod agent;
pub mod export;
pub mod lenient_json;
pub mod limits;
pub mod model;
mod panic_log;
pub mod pipeline;
mod small_lru;
pub mod tool;
pub mod toolset;

pub use haft_message::{call, content, message, usage};
pub use haft_schema as schema;
pub use haft_text as text;

pub use agent::{Agent, RunEvent, RunInput, RunOutput};
#[cfg(feature = "macros")]
#[doc = include_str!("../docs/tool.md")]
pub use haft_macros::tool;
#[cfg(feature = "macros")]
#[doc = include_str!("../docs/tools.md")]
pub use haft_macros::tools;
pub use haft_message::{Message, Timestamp, ToolCall, ToolError, ToolOutput, ToolResult, Transcript};
pub use haft_schema::Schema;
pub use model::ChatModel;
pub use pipeline::{Pipeline, ToolExt};
pub use tool::{Json, Tool, ToolContext, ToolDefinition, ToolName, tool_fn};
pub use toolset::{ToolSource, Toolset};
