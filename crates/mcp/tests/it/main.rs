//! Tests of haft-mcp with real child processes, which reproduce the faults of real servers.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests may panic, and the child servers write to standard output"
)]

mod accept;
mod authorization;
mod authorization_server;
mod child;
mod client_credentials;
mod config;
mod connection;
mod connection_pool;
mod elicitation;
mod features;
mod gateway;
mod guarantees;
mod http;
mod http_limits;
mod http_responses;
mod http_serving;
mod isolation;
mod lazy_start;
mod leaks;
mod lifecycle;
mod list_changes;
mod oauth;
mod processes;
mod revision_cache;
mod rmcp_gaps;
mod serving;
mod source;
mod tasks;
mod web;

use std::{env, sync::atomic::AtomicU32, sync::atomic::Ordering};

use haft_mcp::StdioServer;

/// Returns a configuration that runs this test binary as a server in the mode `mode`. See [`child`]
/// for the modes.
fn server(mode: &str) -> StdioServer {
    let program = env::current_exe().unwrap();
    StdioServer::new(program.to_str().unwrap()).with_args(child::arguments(mode))
}

/// Returns a unique command line argument. It identifies the processes that a test has started.
fn unique_marker() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("haft-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}
