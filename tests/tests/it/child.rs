//! Runs the test binary as an MCP server in a child process.

use std::{env, process};

use haft_core::{Toolset, tool};
use haft_mcp::StdioServer;
use haft_tools::GetCurrentDatetime;

const SERVE_VARIABLE: &str = "HAFT_TESTS_SERVE";

/// Returns the command that starts this binary as an MCP server.
pub(crate) fn server() -> StdioServer {
    let program = env::current_exe().unwrap();
    StdioServer::new(program.to_str().unwrap())
        .with_args(["child::child", "--exact", "--nocapture", "--test-threads=1"])
        .with_env(SERVE_VARIABLE, "1")
}

/// Lists the names of its environment variables.
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

/// The entry point of the child process, which runs the MCP server. In a normal test run, it does
/// nothing.
#[test]
fn child() {
    if env::var_os(SERVE_VARIABLE).is_none() {
        return;
    }
    // The test harness has printed the name of this test without a line break. End this line, so
    // that the first MCP message starts on a new line.
    println!();
    let tools = Toolset::new().with_tool(GetCurrentDatetime).with_tool(Environment).with_tool(Fail);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let served = runtime.block_on(haft_mcp::serve_stdio(tools));
    process::exit(i32::from(served.is_err()));
}
