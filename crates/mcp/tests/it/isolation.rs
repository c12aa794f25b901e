use std::{path::Path, time::Duration};

use haft_core::{Toolset, call::FailureKind};
use haft_mcp::{McpSource, StdioServer, process::ProcessLimits};
use serde_json::json;

use crate::server;

fn isolated() -> StdioServer {
    let StdioServer { command, args, .. } = server("limited");
    StdioServer::isolated(command).with_args(args)
}

async fn start(server: StdioServer) -> Toolset {
    Toolset::new().with_source(McpSource::connect("own", server).await.unwrap())
}

#[tokio::test]
async fn memory_and_files_are_limited() {
    let limits = ProcessLimits::default().with_memory_bytes(512 << 20).with_open_files(50);
    let tools = start(isolated().with_limits(limits)).await;
    assert_eq!(tools.call("allocate", json!({"bytes": 1 << 20})).await.model_text(), "reserved");
    assert_eq!(tools.call("allocate", json!({"bytes": 1 << 29})).await.model_text(), "refused");
    let opened: u32 = tools.call("open", json!({})).await.model_text().parse().unwrap();
    assert!((1..50).contains(&opened), "{opened}");
}

/// A server that exceeds a limit is killed and restarted.
#[tokio::test]
async fn cpu_time_and_length_of_files_are_limited() {
    let limits = ProcessLimits::default().with_cpu_time(Duration::from_secs(1)).with_file_bytes(1 << 16);
    let tools = start(isolated().with_limits(limits)).await;
    for call in ["spin", "grow"] {
        let failure = tools.call(call, json!({})).await.into_output().unwrap_err();
        assert_eq!(failure.kind, FailureKind::Unconfirmed, "{failure:?}");
        assert_eq!(tools.call("allocate", json!({"bytes": 1})).await.model_text(), "reserved");
    }
}

#[tokio::test]
async fn isolated_server_has_its_own_folder_and_no_environment() {
    let source = McpSource::connect("own", isolated()).await.unwrap();
    let tools = Toolset::new().with_source(source);
    let place = tools.call("place", json!({})).await.into_output().unwrap().structured.unwrap();
    // The shell that sets the limits defines `PWD` and further variables.
    assert!(place["variables"].as_u64().unwrap() <= 3, "{place}");
    let cwd = Path::new(place["cwd"].as_str().unwrap()).to_owned();
    assert!(cwd.is_dir() && cwd != std::env::current_dir().unwrap());
}

/// No shell interprets the arguments of a server, also if the server has limits.
#[tokio::test]
async fn arguments_are_not_interpreted_by_a_shell() {
    let arguments = ["$(touch x)", "`id`", "; exit 1", "$HOME", "a b", "*", "\"", "'", "\\"];
    let StdioServer { command, args, .. } = server("limited");
    for server in [StdioServer::new(&command), StdioServer::isolated(&command)] {
        let tools = start(server.with_args(args.clone()).with_args(arguments)).await;
        let received = tools.call("arguments", json!({})).await.into_output().unwrap().structured.unwrap();
        let expected: Vec<_> = args.iter().map(String::as_str).chain(arguments).collect();
        assert_eq!(received["arguments"], json!(expected));
    }
}
