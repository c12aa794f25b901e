//! Tests of the adapter with the tools, executors, chains and memories of `langchain-rust`.

mod agents;
mod memory;
mod models;
mod support;
mod tools;
