//! Tests of the adapter with the tools, executors, chains and memories of `langchain-rust`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod agents;
mod memory;
mod models;
mod support;
mod tools;
