#![doc = include_str!("../README.md")]

mod agent;
pub mod blocking;
pub mod compaction;
pub mod extension;
pub mod handoff;
pub mod host_panic;
mod open_calls;
pub mod queue;
pub mod router;
pub mod run;
pub mod trajectory;

pub use agent::{AgentBuildError, Mailbox, ReactAgent, ReactAgentBuilder, RunHandle};
pub use extension::{Extension, Guardrail};
pub use haft_dialect as dialect;
pub use haft_dialect::{AutoDialect, Dialect, JsonReact, NativeCalls, TextReact};
pub use handoff::HandoffGroup;
pub use queue::{PendingQueue, QueueHandle};
pub use router::Router;
pub use run::{Effect, LimitAction, Output, OutputError, OutputStrategy, Run, RunConfig, Step};
pub use trajectory::Trajectory;
