use std::{fs, process::Command, time::Duration};

use haft_core::{Toolset, tool_fn};
use haft_mcp::{HttpServer, HttpServiceConfig, McpSource, ServerConfig, ServerOptions};
use serde_json::{Map, Value, json};
use tokio::time::{sleep, timeout};

use crate::{child, http_serving::serve, processes::ServerProcesses, server, unique_marker, web::WebServer};

const RESULT_PREFIX: &str = "descriptors: ";
const ROUNDS: usize = 5;

/// Connections that end in any way leave no process, no socket and no other file descriptor. The
/// descriptors of a process are counted, so the connections are in a child process.
#[tokio::test]
async fn ended_connections_leave_no_process_and_no_descriptor() {
    let marker = unique_marker();
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new(program);
    command.args(child::arguments(&format!("leaks={marker}")));
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let counts = text.lines().find_map(|line| line.strip_prefix(RESULT_PREFIX));
    let (before, after) = counts.unwrap_or_else(|| panic!("{text}{errors}")).split_once(' ').unwrap();
    assert_eq!(before, after, "{errors}");
    assert_eq!(ServerProcesses::new(&marker).remaining().await, 0);
}

/// Opens and ends connections, and prints the number of file descriptors before and after. Runs in
/// the child process.
pub(crate) fn child(marker: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let tool = tool_fn("add", "Adds.", |_: Map<String, Value>| async { 42 });
        let served = serve(Toolset::new().with_tool(tool), HttpServiceConfig::default()).await;
        let (modern, legacy) = (WebServer::start("modern").await, WebServer::start("legacy").await);
        let servers = || -> Vec<ServerConfig> {
            let stdio = |mode: &str| server(mode).with_args([marker]).into();
            let http = |url: &str| HttpServer::new(url).into();
            vec![
                stdio("modern"),
                stdio("legacy"),
                http(&modern.url),
                http(&legacy.url),
                served.client().into(),
            ]
        };
        // The first round creates the descriptors of the runtime and of the servers.
        use_connections(servers(), marker).await;
        let before = settled_descriptors(None).await;
        for _ in 0..ROUNDS {
            use_connections(servers(), marker).await;
        }
        println!("\n{RESULT_PREFIX}{before} {}", settled_descriptors(Some(before)).await);
    });
    std::process::exit(0);
}

async fn use_connections(servers: Vec<ServerConfig>, marker: &str) {
    for config in servers {
        let source = McpSource::connect("leaks", config.clone()).await.unwrap();
        let tools = Toolset::new().with_source(source);
        assert_eq!(tools.call("add", json!({"x": 17, "y": 25})).await.model_text(), "42");
        // A call that is dropped.
        let _ = timeout(Duration::from_millis(1), tools.call("wait", json!({}))).await;
        drop(tools);
        // A source that is closed, and one that is dropped while it connects.
        McpSource::connect("leaks", config.clone()).await.unwrap().close().await;
        let _ = timeout(Duration::from_millis(5), McpSource::connect("leaks", config)).await;
    }
    let hanging = ServerOptions::default().with_handshake_timeout(Duration::from_millis(50));
    for mode in ["no_response", "exits_on_discover", "endless"] {
        let failing = server(mode).with_args([marker]).with_options(hanging.clone());
        let _ = McpSource::connect("leaks", failing).await;
    }
}

/// Returns the number of open file descriptors of this process. Waits up to ten seconds until it is
/// `expected`, or until it no longer changes.
async fn settled_descriptors(expected: Option<usize>) -> usize {
    let count = || fs::read_dir("/proc/self/fd").unwrap().count();
    let mut known = count();
    for _ in 0..20 {
        sleep(Duration::from_millis(500)).await;
        let current = count();
        if expected == Some(current) || (expected.is_none() && current == known) {
            return current;
        }
        known = current;
    }
    known
}
