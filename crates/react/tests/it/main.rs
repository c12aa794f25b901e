//! Integration tests of `haft-react`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod added_calls;
mod agent;
mod blocking;
mod cancellation;
mod child_agents;
mod context;
mod crashes;
mod effects;
mod enqueue;
mod events;
mod extensions;
mod faults;
mod handoff;
mod json_dialect;
mod limits;
mod model_middleware;
mod outputs;
mod pairing;
mod prepare_hooks;
mod pushed_calls;
mod queue;
mod random_runs;
mod router;
mod serialization;
mod signature;
mod spans;
mod step_model;
mod suspension;
mod test_model;
mod text_dialect;
mod tool_chains;
mod tool_choice;
mod tools;
mod typical_use;
mod validators;
