#![doc = include_str!("../README.md")]

mod agent;
pub mod blocking;
mod compaction;
pub mod entries;
mod extension;
pub mod handoff;
pub mod hook;
mod host_panic;
mod output;
pub mod queue;
pub mod router;
pub mod run;
pub mod trajectory;
pub mod transcript;

pub use agent::{AgentBuildError, ReactAgent, ReactAgentBuilder, RunHandle, RunScope};
pub use extension::Extension;
pub use haft_dialect as dialect;
pub use haft_dialect::{AutoDialect, Dialect, JsonReact, NativeCalls, TextReact};
pub use handoff::HandoffGroup;
pub use hook::{Guardrail, Hook, Verdict};
pub use output::Output;
pub use queue::{PendingQueue, QueueHandle};
pub use router::Router;
pub use run::{Effect, LimitAction, Outcome, OutputStrategy, Run, RunConfig};
pub use trajectory::Trajectory;
