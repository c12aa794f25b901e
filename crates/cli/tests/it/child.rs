//! An MCP server to use: this binary again.

use std::{env, fs, path::PathBuf, process};

use haft_core::{Toolset, tool};
use serde_json::json;
use tempfile::TempDir;

const SERVE: &str = "HAFT_TESTS_SERVE";

/// An `mcp.json` that names this binary as the server `weather`, and the folder that it lies in.
pub(crate) fn mcp_json() -> (TempDir, PathBuf) {
    let server = json!({
        "command": env::current_exe().unwrap(),
        "args": ["child::child", "--exact", "--nocapture", "--test-threads=1"],
        "env": { SERVE: "1" },
    });
    write_mcp_json(&json!({ "mcpServers": { "weather": server } }).to_string())
}

/// An `mcp.json` of this text, and the folder that it lies in.
pub(crate) fn write_mcp_json(text: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mcp.json");
    fs::write(&path, text).unwrap();
    (folder, path)
}

/// Tells the weather of a city.
#[tool]
fn weather(
    /// The city.
    city: String,
) -> String {
    format!("It rains in {city}.")
}

/// Tells the key, if it is to be seen.
#[tool]
fn key() -> String {
    env::var("OPENAI_API_KEY").unwrap_or_else(|_| "no key".to_owned())
}

/// No test of its own: what the child runs.
#[test]
fn child() {
    if env::var_os(SERVE).is_none() {
        return;
    }
    // The harness has begun a line of its own.
    println!();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let served = runtime.block_on(haft_mcp::serve_stdio(Toolset::new().with(Weather).with(Key)));
    process::exit(i32::from(served.is_err()));
}
