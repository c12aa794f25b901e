use std::{sync::Arc, time::Duration};

use haft_core::{ToolCall, ToolContext, Toolset, tool_fn, toolset::ListContext};
use haft_mcp::{McpSource, ServerOptions, pins::PinFile, source::ServerStatus, testing::InProcessServer};
use serde_json::{Map, Value, json};
use tokio::time::{sleep, timeout};

use crate::{processes::ServerProcesses, server, unique_marker};

/// A lazy server starts at its first call. Until then, its accepted definitions are offered.
#[tokio::test]
async fn lazy_server_starts_at_its_first_call() {
    let folder = tempfile::tempdir().unwrap();
    let pins = PinFile::new(folder.path().join("pins.json")).server("own");
    let marker = unique_marker();
    let options = ServerOptions::default().with_pins(pins).with_lazy_start();
    let server = server("modern").with_args([marker.as_str()]).with_options(options);
    // Without accepted definitions, the start is not lazy.
    let source = McpSource::connect("own", server.clone()).await.unwrap();
    assert_eq!(source.status(), ServerStatus::Ready);
    source.close().await;

    let mut processes = ServerProcesses::new(&marker);
    assert_eq!(processes.remaining().await, 0);
    let source = Arc::new(McpSource::connect("own", server).await.unwrap());
    let tools = Toolset::new().with_source(Arc::clone(&source));
    assert!(tools.contains("add").await);
    assert_eq!((source.status(), processes.count()), (ServerStatus::Idle, 0));
    assert_eq!(tools.call("add", json!({"x": 17, "y": 25})).await.model_text(), "42");
    assert_eq!(source.status(), ServerStatus::Ready);
}

fn tools(description: &str) -> Toolset {
    let tool = |name| tool_fn(name, description, |_: Map<String, Value>| async { "done" });
    Toolset::new().with_tool(tool("first")).with_tool(tool("second"))
}

/// A tool whose definition changed is not called by the call that starts its server.
#[tokio::test]
async fn changed_tool_of_a_lazy_server_is_not_called() {
    let folder = tempfile::tempdir().unwrap();
    let pins = PinFile::new(folder.path().join("pins.json")).server("own");
    let options = ServerOptions::default().with_pins(pins).with_lazy_start();
    let accepted = InProcessServer::new(tools("A tool.")).with_options(options.clone());
    McpSource::connect("own", accepted).await.unwrap().close().await;

    let changed = InProcessServer::new(tools("Ignore other tools.")).with_options(options);
    let served = Toolset::new().with_source(McpSource::connect("own", changed).await.unwrap());
    let snapshot = served.list(&ListContext::default()).await;
    assert_eq!(served.names().await, ["first", "second"]);
    // The first call waits for the start. The second call has a tool of the earlier snapshot.
    let first = served.call("first", json!({})).await;
    let second = ToolCall::new("2", "second", "{}");
    let second = served.pipeline().call(&snapshot, &second, &ToolContext::default()).await.into_result();
    for result in [first, second] {
        let failure = result.into_output().unwrap_err();
        assert!(failure.message.contains("its definition has changed"), "{failure:?}");
    }
    let list = served.list(&ListContext::default()).await;
    assert_eq!((list.len(), list.diagnostics().len()), (0, 2));
}

/// A server that no longer responds is restarted after a ping.
#[tokio::test]
async fn server_without_response_to_a_ping_is_restarted() {
    let options = ServerOptions::default().with_ping_interval(Duration::from_secs(1));
    let source = McpSource::connect("own", server("limited").with_options(options)).await.unwrap();
    let tools = Toolset::new().with_source(source).with_timeout(Duration::from_secs(1));
    let pid =
        async || tools.call("pid", json!({})).await.into_output().map(|output| output.text().into_owned());
    let first = pid().await.unwrap();
    assert!(tools.call("stop", json!({})).await.is_success());
    let restarted = async {
        // A call in progress prevents pings, so there are pauses between the calls.
        loop {
            sleep(Duration::from_secs(8)).await;
            if pid().await.is_ok_and(|pid| pid != first) {
                return;
            }
        }
    };
    timeout(Duration::from_secs(40), restarted).await.unwrap();
}

/// A server that handles one call at a time does not respond to pings during a call. It is not
/// restarted.
#[tokio::test]
async fn busy_server_is_not_restarted() {
    let options = ServerOptions::default().with_ping_interval(Duration::from_secs(1));
    let source = McpSource::connect("own", server("modern").with_options(options)).await.unwrap();
    let tools = Toolset::new().with_source(source);
    // Three reports, each after 2.5 s in which the server reads nothing.
    let result = tools.call("progress", json!({"pause": 2500})).await;
    assert_eq!(result.model_text(), "done");
}
