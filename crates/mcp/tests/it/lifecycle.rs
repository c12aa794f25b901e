use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
    time::Duration,
};

use haft_core::{ToolError, ToolSource as _, Toolset, call::FailureKind, toolset::ListContext};
use haft_mcp::{McpSource, ServerOptions, StdioServer};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use crate::{
    child::{self, launcher_server},
    processes::ServerProcesses,
    server, unique_marker,
};

async fn file_with_calls() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("calls").to_str().unwrap().to_owned();
    (folder, file)
}

/// A call in progress during a crash fails as `Unconfirmed` and is not repeated. The server is
/// restarted.
#[tokio::test(flavor = "multi_thread")]
async fn crash_during_a_call_restarts_the_server() {
    let (_folder, file) = file_with_calls().await;
    let source = McpSource::connect("mortal", server("legacy")).await.unwrap();
    let before = source.tools(&ListContext::default()).await.unwrap();
    let tools = Toolset::new().with_source(source);
    let called = Instant::now();
    let failure = tools.call("die", json!({"file": file})).await.into_output().unwrap_err();
    assert!(called.elapsed() < Duration::from_secs(1), "{:?}", called.elapsed());
    assert_eq!(failure.kind, FailureKind::Unconfirmed);
    assert_eq!(
        failure.message,
        "unconfirmed, it may or may not have happened: the connection to mcp:mortal was lost"
    );

    let again = tools.call("add", json!({"x": 17, "y": 25})).await;
    assert_eq!(again.model_text(), "42");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "called\n", "the call is not repeated");
    // The tool list did not change, so the source keeps its tool objects.
    assert!(std::sync::Arc::ptr_eq(before.get("add").unwrap(), &tools.get("add").await.unwrap()));
}

/// If the server crashes, all calls in progress fail.
#[tokio::test(flavor = "multi_thread")]
async fn crash_fails_every_open_call() {
    let source = McpSource::connect("mortal", server("legacy")).await.unwrap();
    let tools = Toolset::new().with_source(source);
    // The server handles calls one at a time. The first call crashes it, so it never reads the
    // other calls.
    let calls = (0..3).map(|_| tools.call("die", json!({"pause": 200})));
    let outcomes = timeout(Duration::from_secs(10), futures::future::join_all(calls)).await.unwrap();
    for outcome in outcomes {
        assert_eq!(outcome.failure().unwrap().kind, FailureKind::Unconfirmed, "{outcome:?}");
    }
}

/// If the server does not respond, the handshake fails at its deadline.
#[tokio::test(flavor = "multi_thread")]
async fn handshake_without_a_response_times_out() {
    let mute = server("no_response")
        .with_options(ServerOptions::default().with_handshake_timeout(Duration::from_millis(300)));
    let error = McpSource::connect("mute", mute).await.unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("tool source mcp:mute: no response to the handshake within 300ms\ncommand: "),
        "{text}"
    );
}

/// The tools of other servers remain usable while one server starts.
#[tokio::test(flavor = "multi_thread")]
async fn starting_server_does_not_delay_others() {
    let mute = McpSource::start("mute", server("no_response"));
    let other = McpSource::connect("other", server("legacy")).await.unwrap();
    let tools = Toolset::new().with_source(mute).with_source(other);
    let list = timeout(Duration::from_millis(500), tools.list(&ListContext::default())).await.unwrap();
    assert!(list.get("add").is_some());
    let reasons: Vec<_> = list.diagnostics().iter().map(ToString::to_string).collect();
    assert_eq!(reasons, ["tool source mcp:mute has no tools: the server is still starting"]);
}

/// The error for a missing program contains the name of the program.
#[tokio::test(flavor = "multi_thread")]
async fn missing_program_is_reported() {
    let error = McpSource::connect("typo", StdioServer::new("no-such-server")).await.unwrap_err();
    let expected = "tool source mcp:typo: cannot start the server: no executable \"no-such-server\" in PATH\n\
                    command: no-such-server";
    assert_eq!(error.to_string(), expected);
}

/// A failed start is retried in the background. The tools of other servers remain usable during the
/// retries.
#[tokio::test(flavor = "multi_thread")]
async fn failed_start_is_retried_in_the_background() {
    let folder = tempfile::tempdir().unwrap();
    let flag = folder.path().join("flag");
    let StdioServer { command, args, .. } = server("legacy");
    let script = format!("test -e {} && exec {command} {}", flag.display(), args.join(" "));
    let late = McpSource::start("late", StdioServer::new("sh").with_args(["-c", &script]));
    let reason = late.wait_until_ready().await.unwrap_err().reason;
    assert!(reason.starts_with("the server exited during the handshake (exit status: 1)\n"), "{reason}");
    let other = McpSource::connect("other", server("growing")).await.unwrap();
    let tools = Toolset::new().with_source(late).with_source(other);
    let list = tools.list(&ListContext::default()).await;
    assert!(list.get("change").is_some() && list.get("add").is_none());
    let [reason] = &list.diagnostics().iter().map(ToString::to_string).collect::<Vec<_>>()[..] else {
        panic!("{list:?}");
    };
    let expected =
        "tool source mcp:late has no tools: the server exited during the handshake (exit status: 1)";
    assert!(reason.starts_with(expected), "{reason}");
    std::fs::write(&flag, "").unwrap();
    let up = async {
        while tools.get("add").await.is_none() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(20), up).await.unwrap();
    assert_eq!(tools.call("add", json!({"x": 17, "y": 25})).await.model_text(), "42");
}

/// If the server exits during the handshake, the error contains its exit status and the last lines
/// of its standard error.
#[tokio::test(flavor = "multi_thread")]
async fn exit_during_the_handshake_is_reported_with_stderr() {
    let server = StdioServer::new("sh").with_args(["-c", "echo no licence >&2; exit 3"]);
    let error = McpSource::connect("broken", server).await.unwrap_err();
    assert_eq!(
        error.reason,
        "the server exited during the handshake (exit status: 3)\n\
         command: sh -c 'echo no licence >&2; exit 3'\n\
         standard error:\nno licence\n\
         remedy: run the command in a terminal; an MCP server waits there for input. If that works, pass \
         the variables that it needs in `env`, for example `HTTPS_PROXY` or `SSL_CERT_FILE`"
    );
}

/// Dropping the source terminates the server and its descendants.
#[tokio::test(flavor = "multi_thread")]
async fn dropping_the_source_leaves_no_process() {
    let marker = unique_marker();
    let source = McpSource::connect("launched", launcher_server(&marker)).await.unwrap();
    let mut processes = ServerProcesses::new(&marker);
    assert!(processes.count() > 3, "a watchdog, a shell, a server and a background process");
    drop(source);
    assert_eq!(processes.remaining().await, 0);
}

/// `close` returns only after all processes have exited.
#[tokio::test(flavor = "multi_thread")]
async fn close_waits_for_all_processes() {
    let marker = unique_marker();
    let source = McpSource::connect("launched", launcher_server(&marker)).await.unwrap();
    let mut processes = ServerProcesses::new(&marker);
    assert!(processes.count() > 3);
    source.close().await;
    assert_eq!(processes.count(), 0);
}

/// Dropping the future of `connect` terminates the server.
#[tokio::test(flavor = "multi_thread")]
async fn dropping_the_connect_future_leaves_no_process() {
    let marker = unique_marker();
    let program = std::env::current_exe().unwrap();
    let script = format!("{} {} {marker}; : ", program.display(), child::arguments("no_response").join(" "));
    let server = StdioServer::new("sh").with_args(["-c", &script]).with_env("PATH", "/usr/bin:/bin");
    let connecting = McpSource::connect("mute", server);
    let mut processes = ServerProcesses::new(&marker);
    let started = async {
        while processes.count() < 3 {
            sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        outcome = connecting => panic!("{outcome:?}"),
        () = started => {}
    }
    assert_eq!(processes.remaining().await, 0);
}

/// A server ends with the process that owns it, even if the owner is killed, exits or panics.
#[tokio::test(flavor = "multi_thread")]
async fn end_of_the_owner_leaves_no_process() {
    let ends = ["waits", "exits", "panics", "returns"].map(async |how| {
        let marker = unique_marker();
        let mut owner = Command::new(std::env::current_exe().unwrap())
            .args(child::arguments(&format!("own={how},{marker}")))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(owner.stdout.take().unwrap()).lines();
        assert!(lines.map_while(Result::ok).any(|line| line.contains("owner is ready")), "{how}");
        let mut processes = ServerProcesses::new(&marker);
        assert!(processes.count() > 3 || how != "waits");
        if how == "waits" {
            owner.kill().unwrap();
        }
        owner.wait().unwrap();
        assert_eq!(processes.remaining().await, 0, "{how}");
    });
    futures::future::join_all(ends).await;
}

/// Tools may outlive their source. A call to a tool must then fail with a typed error.
#[tokio::test(flavor = "multi_thread")]
async fn calls_fail_after_the_source_is_dropped() {
    let source = McpSource::connect("short", server("legacy")).await.unwrap();
    let list = source.tools(&ListContext::default()).await.unwrap();
    drop(source);
    let add = list.get("add").unwrap();
    let error = add.call(json!({"x": 1, "y": 2}), &haft_core::ToolContext::default()).await.unwrap_err();
    assert!(matches!(&error, ToolError::Failed { source: Some(_), .. }), "{error:?}");
    assert_eq!(error.to_string(), "mcp:short is closed");
}
