//! haft-mcp against real child processes, which can do what real servers do wrong.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may fail, and a server may write"
)]

mod child;
mod config;
mod connection;
mod lifecycle;
mod processes;
mod serving;
mod source;

use std::{env, sync::atomic::AtomicU32, sync::atomic::Ordering};

use haft_mcp::StdioServer;

/// A server of this binary that behaves as `mode` says; see [`child`].
fn server(mode: &str) -> StdioServer {
    let program = env::current_exe().unwrap();
    StdioServer::new(program.to_str().unwrap()).with_args(child::arguments(mode))
}

/// A word that is in the command line of no other process.
fn unique_marker() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("haft-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}
