//! Behaviour of runs and agents.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod added_calls;
mod agent;
mod answers;
mod blocking;
mod cancellation;
mod chains;
mod choice;
mod context;
mod crashes;
mod effects;
mod enqueue;
mod events;
mod extensions;
mod faults;
mod handoff;
mod json;
mod limits;
mod nested;
mod pairing;
mod prepare;
mod property;
mod pushes;
mod queue;
mod router;
mod saved;
mod signature;
mod spans;
mod step_model;
mod suspended;
mod test_model;
mod text;
mod tools;
mod typical_use;
mod validators;
#[cfg(test)]
mod wrapped;
