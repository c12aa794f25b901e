//! The MCP server `weather` of the tests. This test binary runs it as a child process of `haft`.

use std::{env, fs, path::PathBuf, process};

use haft_core::{Toolset, tool};
use serde_json::json;
use tempfile::TempDir;

const SERVE_VARIABLE: &str = "HAFT_TESTS_SERVE";

/// Writes an `mcp.json` with the server `weather`. Returns its temporary folder and its path.
pub(crate) fn write_weather_mcp_json() -> (TempDir, PathBuf) {
    let server = json!({
        "command": env::current_exe().unwrap(),
        "args": ["child::child", "--exact", "--nocapture", "--test-threads=1"],
        "env": { SERVE_VARIABLE: "1" },
    });
    write_mcp_json(&json!({ "mcpServers": { "weather": server } }).to_string())
}

/// Writes an `mcp.json` with this text. Returns its temporary folder and its path.
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

/// Runs the MCP server if this process is the child process, in which `HAFT_TESTS_SERVE` is set.
/// Otherwise this test does nothing.
#[test]
fn child() {
    if env::var_os(SERVE_VARIABLE).is_none() {
        return;
    }
    // The test harness has written a line without its end. End it, so that the first MCP message is
    // on its own line.
    println!();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let result = runtime.block_on(haft_mcp::serve_stdio(Toolset::new().with_tool(Weather).with_tool(Key)));
    process::exit(i32::from(result.is_err()));
}
