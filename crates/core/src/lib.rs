#![doc = include_str!("../README.md")]

#[doc(hidden)]
pub mod __private;
pub mod agent;
pub mod call;
pub mod content;
pub mod export;
pub mod limits;
pub mod message;
pub mod model;
pub mod pipeline;
mod timestamp;
pub mod tool;
pub mod toolset;
pub mod usage;

pub use haft_schema as schema;
pub use haft_text as text;

pub use agent::{Agent, RunEvent, RunInput, RunOutput};
pub use call::{ToolCall, ToolError, ToolOutput, ToolResult};
#[cfg(feature = "macros")]
#[doc = include_str!("../docs/tool.md")]
pub use haft_macros::tool;
#[cfg(feature = "macros")]
#[doc = include_str!("../docs/tools.md")]
pub use haft_macros::tools;
pub use haft_schema::Schema;
pub use message::{Message, Transcript};
pub use model::ChatModel;
pub use pipeline::{Pipeline, ToolExt};
pub use timestamp::Timestamp;
pub use tool::{Json, Tool, ToolContext, ToolDefinition, ToolName, tool_fn};
pub use toolset::{ToolSource, Toolset};
