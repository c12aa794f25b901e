use haft_core::toolset::ListContext;
use haft_core::{ToolSource as _, Toolset};
use haft_mcp::McpConfig;
use serde_json::json;

use crate::server;

/// The servers in an `mcp.json` file are started, and their tools can be called.
#[tokio::test(flavor = "multi_thread")]
async fn servers_of_a_file_are_started() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mcp.json");
    let server = server("legacy");
    let entry = json!({"command": server.command, "args": server.args, "disabled": false});
    std::fs::write(&path, json!({"mcpServers": {"one": entry}}).to_string()).unwrap();
    let sources = McpConfig::from_path(&path).unwrap().start();
    let mut tools = Toolset::new();
    for source in sources {
        source.wait_until_ready().await.unwrap();
        assert_eq!(source.label(), "mcp:one");
        tools = tools.with_source(source);
    }
    assert!(tools.list(&ListContext::default()).await.diagnostics().is_empty());
    assert_eq!(tools.call("add", json!({"x": 17, "y": 25})).await.model_text(), "42");
}

/// An invalid entry costs its server, and not the file. Its source reports the fault.
#[tokio::test(flavor = "multi_thread")]
async fn invalid_entry_costs_only_its_server() {
    let server = server("legacy");
    let entry = json!({"command": server.command, "args": server.args});
    let text = json!({"mcpServers": {"bad": {"args": []}, "good": entry}}).to_string();
    let sources = McpConfig::from_json(&text).unwrap().start();
    let mut tools = Toolset::new();
    let mut failures = Vec::new();
    for source in sources {
        failures.extend(source.wait_until_ready().await.err());
        tools = tools.with_source(source);
    }
    let expected =
        "tool source mcp:bad: the entry is invalid: neither \"command\" nor \"url\": add one of them";
    assert_eq!(failures.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
    assert_eq!(tools.call("add", json!({"x": 17, "y": 25})).await.model_text(), "42");
    let list = tools.list(&ListContext::default()).await;
    let [failed] = list.diagnostics() else { panic!("{:?}", list.diagnostics()) };
    assert!(failed.to_string().contains("neither \"command\" nor \"url\""), "{failed}");
}

/// The error for an invalid `mcp.json` file contains the path of the file.
#[test]
fn error_has_the_path() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mcp.json");
    std::fs::write(&path, "{\"mcpServers\": {\n  \"a\": {\"command\": }\n}}").unwrap();
    let error = McpConfig::from_path(&path).unwrap_err().to_string();
    assert_eq!(error, format!("{}: not JSON: expected value at line 2 column 20", path.display()));
    let missing = folder.path().join("none.json");
    let error = McpConfig::from_path(&missing).unwrap_err().to_string();
    assert!(error.starts_with(&format!("{}: cannot be read: ", missing.display())), "{error}");
}
