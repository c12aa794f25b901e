#![doc = include_str!("../README.md")]

mod agent;
mod blocking;
mod dialect;
mod handoff;
mod open_calls;
pub mod queue;
mod reply;
mod router;
pub mod run;
mod trajectory;

pub use agent::{BuildError, ReactAgent, ReactAgentBuilder, RunHandle, StepContext, StepRequest};
pub use blocking::{BlockingAgent, BlockingEvents};
pub use dialect::{Delta, Dialect, FINISH, JsonReact, Listener, NativeCalls, Prompt, TextReact, dialect_for};
pub use handoff::{Carried, HandoffError, Handoffs};
pub use queue::{PendingQueue, QueueError, QueueHandle, Queued, QueuedResults};
pub use reply::Reply;
pub use router::{
    Choice, Classifier, Keyword, Keywords, ModelClassifier, Route, RouteTable, Router, RouterError,
};
pub use run::{
    AtLimit, CallBatch, ContextConfig, Effect, Output, OutputError, OutputStrategy, Run, RunConfig, RunError,
    RunHead, Step, When, is_hint, is_unusable,
};
pub use trajectory::{Trajectory, TrajectoryStep};
