//! The other side of stdio: this binary again, started as an MCP server.

use std::{env, process};

use haft_core::{Toolset, tool};
use haft_mcp::StdioServer;
use haft_tools::GetCurrentDatetime;

const SERVE: &str = "HAFT_TESTS_SERVE";

/// How this binary is started as a server.
pub(crate) fn server() -> StdioServer {
    let program = env::current_exe().unwrap();
    StdioServer::new(program.to_str().unwrap())
        .with_args(["child::child", "--exact", "--nocapture", "--test-threads=1"])
        .with_env(SERVE, "1")
}

/// Counts what it can see of its environment.
#[tool]
fn environment() -> String {
    let mut names: Vec<_> = env::vars().map(|(name, _)| name).collect();
    names.sort();
    names.join(" ")
}

/// Fails.
#[tool]
fn fail() -> Result<(), &'static str> {
    Err("the disk is full")
}

/// No test of its own: what the child runs.
#[test]
fn child() {
    if env::var_os(SERVE).is_none() {
        return;
    }
    // The harness has begun a line of its own.
    println!();
    let tools = Toolset::new().with(GetCurrentDatetime).with(Environment).with(Fail);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let served = runtime.block_on(haft_mcp::serve_stdio(tools));
    process::exit(i32::from(served.is_err()));
}
