#![doc = include_str!("../README.md")]

mod agent_tool;
mod audit;
mod extension_traits;
mod fallback;
pub mod lint;
mod model_layer;
mod read_result;
mod redact;
mod registry;
mod reply_cache;
mod result_cache;
mod service;
mod source_layer;
mod tool_layer;
mod ttl_lru;

pub use agent_tool::{AgentExt, AgentTool};
pub use audit::{AuditEntry, AuditLog, AuditOutcome, PendingReason};
pub use extension_traits::{ModelMiddleware, ToolMiddleware, ToolsetMiddleware};
pub use fallback::FallbackModel;
pub use model_layer::{ChatService, ChatStream, LayeredModel, ModelService};
pub use read_result::ReadResult;
pub use registry::ToolRegistry;
pub use reply_cache::{CachedModel, ReplyCache};
pub use result_cache::{CachedService, ResultCache};
pub use service::IntoLayerError;
pub use tool_layer::{CallRequest, CallService, LayeredTool, ToolService};
