//! The MCP server `weather`: this test binary, started as a child process.

use std::{env, fs, path::PathBuf, process};

use haft_core::{Toolset, tool};
use serde_json::json;
use tempfile::TempDir;

const SERVE: &str = "HAFT_TESTS_SERVE";

/// An `mcp.json` with the server `weather`, and its temporary folder.
pub(crate) fn mcp_json() -> (TempDir, PathBuf) {
    let server = json!({
        "command": env::current_exe().unwrap(),
        "args": ["child::child", "--exact", "--nocapture", "--test-threads=1"],
        "env": { SERVE: "1" },
    });
    write_mcp_json(&json!({ "mcpServers": { "weather": server } }).to_string())
}

/// An `mcp.json` with this text, and its temporary folder.
pub(crate) fn write_mcp_json(text: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mcp.json");
    fs::write(&path, text).unwrap();
    (folder, path)
}

/// Returns the weather of a city.
#[tool]
fn weather(
    /// The city.
    city: String,
) -> String {
    format!("It rains in {city}.")
}

/// Returns the API key in the environment, if there is one.
#[tool]
fn key() -> String {
    env::var("OPENAI_API_KEY").unwrap_or_else(|_| "no key".to_owned())
}

/// The entry point of the child process. Without `HAFT_TESTS_SERVE` it does nothing.
#[test]
fn child() {
    if env::var_os(SERVE).is_none() {
        return;
    }
    // End the line that the test harness has started.
    println!();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let result = runtime.block_on(haft_mcp::serve_stdio(Toolset::new().with(Weather).with(Key)));
    process::exit(i32::from(result.is_err()));
}
