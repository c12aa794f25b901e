//! The MCP server `weather` for the tests. `haft` starts this test binary as a child process, which
//! then runs the server.

use std::{env, fs, path::PathBuf, process};

use haft_core::{Json, Toolset, tool};
use serde_json::json;
use tempfile::TempDir;

const SERVE_VARIABLE: &str = "HAFT_TESTS_SERVE";

/// Writes an `mcp.json` with the server `weather` to a temporary folder. Returns the folder, which
/// is deleted on drop, and the path of the file.
pub(crate) fn write_weather_mcp_json() -> (TempDir, PathBuf) {
    let server = json!({
        "command": env::current_exe().unwrap(),
        "args": ["child::child", "--exact", "--nocapture", "--test-threads=1"],
        "env": { SERVE_VARIABLE: "1" },
    });
    write_mcp_json(&json!({ "mcpServers": { "weather": server } }).to_string())
}

/// Writes `text` to the file `mcp.json` in a temporary folder. Returns the folder, which is deleted
/// on drop, and the path of the file.
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

/// Returns a city as structured content.
#[tool]
fn find(city: String) -> Json<serde_json::Value> {
    Json(json!({ "city": city }))
}

/// Returns the API key in the environment, if there is one.
#[tool]
fn key() -> String {
    env::var("OPENAI_API_KEY").unwrap_or_else(|_| "no key".to_owned())
}

/// Runs the MCP server if `HAFT_TESTS_SERVE` is set, which is the case only in the child process of
/// `haft`. In an ordinary test run, this test does nothing.
#[test]
fn child() {
    if env::var_os(SERVE_VARIABLE).is_none() {
        return;
    }
    // The test harness has written the name of this test without a line break. End that line, so
    // that the first MCP message starts on a new line.
    println!();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let result = runtime.block_on(haft_mcp::serve_stdio(Toolset::new().with_tools((Weather, Find, Key))));
    process::exit(i32::from(result.is_err()));
}
