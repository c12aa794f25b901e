use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
    time::Duration,
};

use haft_core::{ToolError, ToolSource as _, Toolset, call::FailureKind, toolset::ListContext};
use haft_mcp::{McpSource, StdioServer};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use crate::{
    child::{self, launcher},
    processes::Watched,
    server, unique_marker,
};

async fn file_with_calls() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("calls").to_str().unwrap().to_owned();
    (folder, file)
}

/// Behaviour F50, Behaviour P1.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_during_a_call_is_started_again() {
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
        "unconfirmed, it may or may not have happened: mcp:mortal was lost during the call"
    );

    let again = tools.call("add", json!({"x": 17, "y": 25})).await;
    assert_eq!(again.model_text(), "42");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "called\n", "nothing is called twice");
    // The list is what it was, so that it is the same snapshot.
    assert!(std::sync::Arc::ptr_eq(before.get("add").unwrap(), &tools.get("add").await.unwrap()));
}

/// Behaviour F50: not one but all open calls fail at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_death_fails_every_open_call() {
    let source = McpSource::connect("mortal", server("legacy")).await.unwrap();
    let tools = Toolset::new().with_source(source);
    // The server takes one call after the other: the first is deadly, the others are never read.
    let calls = (0..3).map(|_| tools.call("die", json!({"pause": 200})));
    let outcomes = timeout(Duration::from_secs(10), futures::future::join_all(calls)).await.unwrap();
    for outcome in outcomes {
        assert_eq!(outcome.failure().unwrap().kind, FailureKind::Unconfirmed, "{outcome:?}");
    }
}

/// Behaviour P2.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_never_answers_the_handshake_fails_by_its_deadline() {
    let mute = server("mute").with_handshake_timeout(Duration::from_millis(300));
    let error = McpSource::connect("mute", mute).await.unwrap_err();
    assert_eq!(error.to_string(), "tool source mcp:mute: it did not answer the handshake within 300ms");
}

/// Behaviour P2: others are usable meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_starts_is_waited_for_by_nobody() {
    let mute = McpSource::start("mute", server("mute"));
    let other = McpSource::connect("other", server("legacy")).await.unwrap();
    let tools = Toolset::new().with_source(mute).with_source(other);
    let list = timeout(Duration::from_millis(500), tools.list(&ListContext::default())).await.unwrap();
    assert!(list.get("add").is_some());
    let reasons: Vec<_> = list.diagnostics().iter().map(ToString::to_string).collect();
    assert_eq!(reasons, ["tool source mcp:mute has no tools: it is still starting"]);
}

/// Behaviour F49: the reason is reported.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_is_not_there_is_an_error_that_says_so() {
    let error = McpSource::connect("typo", StdioServer::new("no-such-server")).await.unwrap_err();
    let expected = "tool source mcp:typo: it cannot be started: no executable \"no-such-server\" in PATH";
    assert_eq!(error.to_string(), expected);
}

/// Behaviour F49: a server that fails is tried again, and others do not wait for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_comes_up_later_is_there_later() {
    let folder = tempfile::tempdir().unwrap();
    let licence = folder.path().join("licence");
    let StdioServer { command, args, .. } = server("legacy");
    let script = format!("test -e {} && exec {command} {}", licence.display(), args.join(" "));
    let late = McpSource::start("late", StdioServer::new("sh").with_args(["-c", &script]));
    let reason = late.ready().await.unwrap_err().reason;
    assert_eq!(reason, "it ended (exit status: 1)");
    let other = McpSource::connect("other", server("growing")).await.unwrap();
    let tools = Toolset::new().with_source(late).with_source(other);
    let list = tools.list(&ListContext::default()).await;
    assert!(list.get("change").is_some() && list.get("add").is_none());
    let reasons: Vec<_> = list.diagnostics().iter().map(ToString::to_string).collect();
    assert_eq!(reasons, ["tool source mcp:late has no tools: it ended (exit status: 1)"]);
    std::fs::write(&licence, "").unwrap();
    let up = async {
        while tools.get("add").await.is_none() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(20), up).await.unwrap();
    assert_eq!(tools.call("add", json!({"x": 17, "y": 25})).await.model_text(), "42");
}

/// Behaviour F49: so is what the server had to say.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_ends_at_once_is_quoted() {
    let server = StdioServer::new("sh").with_args(["-c", "echo 'no licence' >&2; exit 3"]);
    let error = McpSource::connect("broken", server).await.unwrap_err();
    assert_eq!(error.reason, "it ended (exit status: 3); it last wrote:\nno licence");
}

/// Behaviour F51, Behaviour P3.
#[tokio::test(flavor = "multi_thread")]
async fn dropping_the_source_leaves_no_process() {
    let marker = unique_marker();
    let source = McpSource::connect("launched", launcher(&marker)).await.unwrap();
    let mut processes = Watched::new(&marker);
    assert!(processes.alive() > 3, "a shell, a server, what it started, and what ends them all");
    drop(source);
    assert_eq!(processes.left_after_five_seconds().await, 0);
}

/// Behaviour F51: whoever waits for the end finds nothing left.
#[tokio::test(flavor = "multi_thread")]
async fn closing_the_source_waits_for_the_end() {
    let marker = unique_marker();
    let source = McpSource::connect("launched", launcher(&marker)).await.unwrap();
    let mut processes = Watched::new(&marker);
    assert!(processes.alive() > 3);
    source.close().await;
    assert_eq!(processes.alive(), 0);
}

/// Behaviour P3.
#[tokio::test(flavor = "multi_thread")]
async fn dropping_the_connect_future_leaves_no_process() {
    let marker = unique_marker();
    let program = std::env::current_exe().unwrap();
    let script = format!("{} {} {marker}; : ", program.display(), child::arguments("mute").join(" "));
    let server = StdioServer::new("sh").with_args(["-c", &script]).with_env("PATH", "/usr/bin:/bin");
    let connecting = McpSource::connect("mute", server);
    let mut processes = Watched::new(&marker);
    let started = async {
        while processes.alive() < 3 {
            sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        outcome = connecting => panic!("{outcome:?}"),
        () = started => {}
    }
    assert_eq!(processes.left_after_five_seconds().await, 0);
}

/// Behaviour F51: a panic, and the end of the process in any way.
#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_the_owner_leaves_no_process() {
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
        let mut processes = Watched::new(&marker);
        assert!(processes.alive() > 3 || how != "waits");
        if how == "waits" {
            owner.kill().unwrap();
        }
        owner.wait().unwrap();
        assert_eq!(processes.left_after_five_seconds().await, 0, "{how}");
    });
    futures::future::join_all(ends).await;
}

/// The source owns the connection; its tools fail with a typed error.
#[tokio::test(flavor = "multi_thread")]
async fn tools_outlive_their_source_as_errors() {
    let source = McpSource::connect("short", server("legacy")).await.unwrap();
    let list = source.tools(&ListContext::default()).await.unwrap();
    drop(source);
    let add = list.get("add").unwrap();
    let error = add.call(json!({"x": 1, "y": 2}), &haft_core::ToolContext::default()).await.unwrap_err();
    assert!(matches!(&error, ToolError::Failed { source: Some(_), .. }), "{error:?}");
    assert_eq!(error.to_string(), "mcp:short is closed");
}
