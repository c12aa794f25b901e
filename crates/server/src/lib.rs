#![doc = include_str!("../README.md")]

mod body;
mod chat;
mod client;
mod error;
mod live;
mod metrics;
mod openapi;
mod runs;
mod server;
mod sessions;
mod sse;
mod stored;
mod tools;

pub use server::{Server, ServerBuilder};
pub use stored::{RunRequest, StoredAgent, StoredRunError};
