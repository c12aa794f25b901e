#![doc = include_str!("../README.md")]

#[doc(hidden)]
pub mod __private;
mod advice;
mod agent;
mod blocking;
mod call;
mod causes;
mod content;
mod deadline;
mod in_flight;
mod kept;
pub mod limits;
mod message;
mod model;
mod pipeline;
mod recent;
mod rendering;
mod result_cache;
pub mod schema;
mod source;
mod store;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod text;
mod timestamp;
mod tool;
mod toolset;
mod transcript;

pub use advice::{Advice, Lack};
pub use agent::{
    Agent, AgentError, AgentErrorKind, AgentExt, AgentStep, AgentTool, Answer, Answers, Limit, Parked,
    Resumed, ResumedCalls, RunAnswer, RunEvent, RunInput, RunLimits, RunOutput, RunStart, Steps, StopReason,
    WrongAnswer,
};
pub use async_trait::async_trait;
pub use blocking::may_block;
pub use call::{Failure, FailureKind, Outcome, ToolCall, ToolResult};
pub use causes::WithCauses;
pub use content::{Bytes, Content, ResourceBody};
#[cfg(feature = "macros")]
#[doc = include_str!("../docs/tool.md")]
pub use haft_macros::tool;
#[cfg(feature = "macros")]
#[doc = include_str!("../docs/tools.md")]
pub use haft_macros::tools;
pub use message::{AssistantMessage, Message, MessageBody, ProviderData};
pub use model::{
    CachedReplies, ChatEvent, ChatModel, ChatModelExt, ChatRequest, ChatResponse, ChatService, ChatSettings,
    ChatStream, Cost, FallbackModel, FinishReason, LayeredModel, ModelError, ModelFailure, ModelProfile,
    ModelService, Price, Priced, Prices, ReplyCache, ResponseFormat, TimeoutPhase, ToolChoice, Usage,
};
pub use pipeline::{
    Audit, AuditLog, AuditOutcome, Batch, CallOutcome, CallRecord, Pipeline, Recorder, WaitsFor,
};
pub use result_cache::{CachedResults, ResultCache};
pub use schema::{Repair, RepairPolicy, Schema, SchemaError, Violation, Violations};
pub use schemars;
pub use serde_json::{Value, json};
pub use source::{
    Adapted, Adaptor, ApprovalRequired, Cached, Combined, Diagnostic, External, Filtered, Layered,
    ListContext, Mapped, Prefixed, Prepared, Renamed, SourceError, ToolList, ToolRegistry, ToolSource,
    ToolSourceExt,
};
pub use store::{MemoryResultStore, ReadResult, ResultStore};
pub use timestamp::Timestamp;
pub use tool::{
    Annotations, BoxError, CallRequest, CallService, Chain, ChainError, Deprecation, DynamicTool,
    IntoToolOutput, InvalidToolName, Json, LayeredTool, Pending, PendingCall, PendingKind, Policy, Principal,
    Progress, ProgressSink, Redefined, RunContext, State, StateType, Tool, ToolContext, ToolDefinition,
    ToolError, ToolExt, ToolName, ToolOutcome, ToolOutput, ToolService, Tools, UsageMeter, chain,
    from_arguments, tool_fn,
};
pub use toolset::{ToolInfo, Toolset, ToolsetError};
pub use transcript::{Transcript, View};
