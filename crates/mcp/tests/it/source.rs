use std::{
    env,
    sync::{Arc, Mutex},
    time::Duration,
};

use expect_test::expect;
use futures::future::join_all;
use haft_core::{
    ToolContext, ToolExt as _, ToolSource as _, Toolset,
    call::FailureKind,
    tool::{Progress, ProgressSink, RunContext},
    toolset::{ListContext, ToolList},
};
use haft_mcp::{McpSource, ServerOptions, StdioServer, ToolFilter, pins::PinFile};
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::server;

async fn tools_of(mode: &str) -> Toolset {
    Toolset::new().with_source(McpSource::connect("faulty", server(mode)).await.unwrap())
}

/// The source detects the protocol revision of the server. The modes are:
///
/// - `legacy`: supports only `initialize`, and rejects `server/discover`
/// - `modern`: supports only revision 2026-07-28, and rejects `initialize`
/// - `slow_modern`: like `modern`, but sends its first response after the probe timeout
/// - `exits_on_discover`: exits on `server/discover`
/// - `exits_after_discover`: rejects `server/discover`, and then exits
/// - `ignores_discover`: never responds to `server/discover`
/// - `discover_2025`: responds to `server/discover` with revision 2025-11-25
#[tokio::test(flavor = "multi_thread")]
async fn protocol_revision_is_detected() {
    let modes = [
        "legacy",
        "modern",
        "slow_modern",
        "exits_on_discover",
        "exits_after_discover",
        "ignores_discover",
        "discover_2025",
    ];
    let calls = modes.map(async |mode| {
        let sum = tools_of(mode).await.call("add", json!({"x": 17, "y": 25})).await;
        assert_eq!(sum.to_json()["result"], json!("42"), "{mode}");
    });
    join_all(calls).await;
}

/// A call fails if the server returns a result with `isError` or a JSON-RPC error.
#[tokio::test(flavor = "multi_thread")]
async fn server_errors_fail_the_call() {
    let tools = tools_of("legacy").await;
    let failure = tools.call("error", json!({})).await.into_output().unwrap_err();
    assert_eq!((failure.kind, &*failure.message), (FailureKind::Failed, "no such file"));
    let failure = tools.call("rpc_error", json!({})).await.into_output().unwrap_err();
    assert_eq!(failure.kind, FailureKind::Failed);
    assert_eq!(failure.message, r#"out of paper (code -32000): {"tray":2}"#);
    assert_eq!(tools.call("add", json!({"x": 1, "y": 2})).await.model_text(), "3");
}

/// Invalid tools are quarantined, and the other tools are listed.
#[tokio::test(flavor = "multi_thread")]
async fn invalid_tools_are_quarantined() {
    let list = tools_of("bad_tools").await.list(&ListContext::default()).await;
    let definitions: Vec<_> =
        list.tools().iter().map(|tool| serde_json::to_value(tool.definition()).unwrap()).collect();
    expect![[r#"
        [
          {
            "name": "good",
            "description": "Does good.",
            "input_schema": {
              "type": "object",
              "properties": {}
            }
          },
          {
            "name": "no_description_28a867be3b3d",
            "title": "Undescribed",
            "description": "",
            "input_schema": {
              "type": "object",
              "properties": {}
            },
            "annotations": {
              "read_only": true
            },
            "metadata": {
              "vendor/key": [
                1
              ]
            }
          }
        ]"#]]
    .assert_eq(&serde_json::to_string_pretty(&definitions).unwrap());
    let diagnostics: Vec<_> = list.diagnostics().iter().map(ToString::to_string).collect();
    // The texts after "invalid schema" are from `haft-schema` and are tested there.
    let prefixes: Vec<_> =
        diagnostics.iter().filter_map(|line| line.split(": invalid schema").next()).collect();
    expect![[r#"
        tool "null_schema" of mcp:faulty is quarantined: `inputSchema` must be an object, not null
        tool "bad_type" of mcp:faulty is quarantined: `inputSchema`
        tool "remote" of mcp:faulty is quarantined: `inputSchema`
        tool "number 5" of mcp:faulty is quarantined: no `name`"#]]
    .assert_eq(&prefixes.join("\n"));
}

/// All pages of the tool list are fetched. A repeated cursor and the limit of 100 pages end the
/// list, and its tools are offered.
#[tokio::test(flavor = "multi_thread")]
async fn pagination_ends() {
    // An empty cursor is the end of the list before revision 2026-07-28.
    assert_eq!(tools_of("empty_cursor").await.names().await, ["first"]);
    for (mode, reason) in
        [("circular", "page 2: the cursor \"again\" is repeated"), ("endless", "it has more than 100 pages")]
    {
        let source = McpSource::connect("faulty", server(mode)).await.unwrap();
        let list = source.tools(&ListContext::default()).await.unwrap();
        let diagnostics: Vec<_> = list.diagnostics().iter().map(ToString::to_string).collect();
        assert_eq!(diagnostics, [format!("the tool list of mcp:faulty may be incomplete: {reason}")]);
        assert!(!list.tools().is_empty(), "{mode}");
    }
}

/// Returns the number of `tools/list` requests that the server has received so far.
async fn list_requests(tools: &ToolList) -> u32 {
    tools.get("listed").unwrap().invoke(json!({})).await.model_text().parse().unwrap()
}

/// Waits until the server has received `count` requests for `tools/list`.
async fn wait_for_list_requests(tools: &ToolList, count: u32) {
    let reached = async {
        while list_requests(tools).await < count {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(10), reached).await.unwrap();
}

/// Waits until the tool list of `source` contains the tool with the name `tool`.
async fn wait_for_tool(source: &McpSource, tool: &str) {
    let listed = async {
        while source.tools(&ListContext::default()).await.unwrap().get(tool).is_none() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(10), listed).await.unwrap();
}

/// The snapshot of the tools is kept if the tool list is unchanged or the new list cannot be
/// fetched.
#[tokio::test(flavor = "multi_thread")]
async fn notification_without_a_change_keeps_the_snapshot() {
    for mode in ["legacy", "rejects_refresh"] {
        let source = McpSource::connect("faulty", server(mode)).await.unwrap();
        let before = source.tools(&ListContext::default()).await.unwrap();
        for count in 2..=3 {
            before.get("change").unwrap().invoke(json!({})).await;
            wait_for_list_requests(&before, count).await;
        }
        assert_eq!(
            source.tools(&ListContext::default()).await.unwrap().snapshot_id(),
            before.snapshot_id(),
            "{mode}"
        );
    }
}

/// The source returns a new snapshot after a change of the tool list.
#[tokio::test(flavor = "multi_thread")]
async fn notification_updates_the_tool_list() {
    let source = McpSource::connect("faulty", server("growing")).await.unwrap();
    let before = source.tools(&ListContext::default()).await.unwrap();
    assert_eq!(before.names().collect::<Vec<_>>(), ["change", "listed"]);
    assert!(before.get("change").unwrap().invoke(json!({})).await.is_success());
    wait_for_tool(&source, "new_0").await;
}

/// A flood of 1,000 notifications causes at most ten list requests per second.
#[tokio::test(flavor = "multi_thread")]
async fn flood_of_notifications_is_coalesced() {
    let source = McpSource::connect("faulty", server("legacy")).await.unwrap();
    let tools = source.tools(&ListContext::default()).await.unwrap();
    let started = Instant::now();
    assert_eq!(tools.get("flood").unwrap().invoke(json!({})).await.model_text(), "flooded");
    wait_for_list_requests(&tools, 2).await;
    let count = list_requests(&tools).await;
    assert!(u128::from(count) <= 3 + started.elapsed().as_millis() / 100, "{count}");
}

/// A notification during a refresh causes another refresh, but at most ten per second.
#[tokio::test(flavor = "multi_thread")]
async fn notification_during_a_refresh_causes_another_refresh() {
    let started = Instant::now();
    let source = McpSource::connect("faulty", server("always_changing")).await.unwrap();
    for tool in ["new_0", "new_1", "new_2", "new_3"] {
        wait_for_tool(&source, tool).await;
    }
    let count = list_requests(&source.tools(&ListContext::default()).await.unwrap()).await;
    assert!(u128::from(count) <= 2 + started.elapsed().as_millis() / 100, "{count}");
}

/// A rejected subscription is retried. As soon as a subscription is active, the tool list is
/// fetched again, because it may have changed in the meantime.
#[tokio::test(flavor = "multi_thread")]
async fn change_before_the_subscription_is_detected() {
    let source = McpSource::connect("faulty", server("subscriptions")).await.unwrap();
    wait_for_tool(&source, "new_0").await;
}

/// The limits in [`StdioServer`](haft_mcp::StdioServer) must replace the default limits.
#[tokio::test(flavor = "multi_thread")]
async fn limits_are_configurable() {
    let reason = async |server| McpSource::connect("faulty", server).await.unwrap_err().reason;
    let endless = server("endless").with_options(ServerOptions::default().with_max_list_pages(2));
    let source = McpSource::connect("faulty", endless).await.unwrap();
    let list = source.tools(&ListContext::default()).await.unwrap();
    assert!(list.diagnostics()[0].to_string().contains("more than 2 pages"), "{:?}", list.diagnostics());
    let slow = reason(
        server("no_list_response")
            .with_options(ServerOptions::default().with_list_timeout(Duration::from_millis(100))),
    )
    .await;
    assert_eq!(slow, "the server did not list its tools within 100ms");
    // The probe timeout is a third of the handshake timeout. With a probe timeout of 3 s, this
    // handshake would time out.
    let options = ServerOptions::default().with_handshake_timeout(Duration::from_millis(2900));
    let narrow = server("ignores_discover").with_options(options.with_max_message_bytes(4000));
    let tools = Toolset::new().with_source(McpSource::connect("faulty", narrow).await.unwrap());
    let long = json!({"content": [{"type": "text", "text": "x".repeat(4000)}]});
    let failure = tools.call("echo", long).await.into_output().unwrap_err();
    assert!(failure.message.ends_with("exceed the limit of 4000 (code -32700)"), "{}", failure.message);
}

/// The server process gets the variables of its configuration, and only those variables of its
/// parent that the official SDKs pass on.
#[tokio::test(flavor = "multi_thread")]
async fn child_gets_only_the_configured_environment() {
    let environment = async |server: StdioServer| {
        let tools = Toolset::new().with_source(McpSource::connect("faulty", server).await.unwrap());
        tools.call("env", json!({})).await.into_output().unwrap().structured.unwrap()
    };
    let inherited = |names: &[&str]| -> Map<String, Value> {
        let set = names.iter().filter_map(|name| Some(((*name).to_owned(), env::var(name).ok()?.into())));
        set.collect()
    };
    assert!(env::var("CARGO_PKG_NAME").is_ok(), "the parent has further variables");
    let server = server("legacy").with_env("GREETING", "hello");
    let mut expected = inherited(&StdioServer::DEFAULT_ENV);
    expected.insert("GREETING".to_owned(), json!("hello"));
    assert_eq!(environment(server.clone()).await, Value::Object(expected));

    let own = server.without_inherited_env().with_inherited_env(["PATH", "HAFT_NOT_SET"]);
    let mut expected = inherited(&["PATH"]);
    expected.insert("GREETING".to_owned(), json!("hello"));
    assert_eq!(environment(own).await, Value::Object(expected));
}

/// The tool filter of a server hides tools by their original names.
#[tokio::test(flavor = "multi_thread")]
async fn filtered_tools_are_not_listed() {
    let filter = ToolFilter::allow(["add", "e*"]).and_deny(["error"]);
    let options = ServerOptions::default().with_tool_filter(filter);
    let source = McpSource::connect("faulty", server("legacy").with_options(options)).await.unwrap();
    assert_eq!(Toolset::new().with_source(source).names().await, ["add", "env", "echo"]);
}

/// A call succeeds even if the server writes 2,001 other lines to standard output and 2 MiB to
/// standard error.
#[tokio::test(flavor = "multi_thread")]
async fn stray_output_does_not_break_the_connection() {
    let sum = tools_of("noisy").await.call("add", json!({"x": 17, "y": 25})).await;
    assert_eq!(sum.model_text(), "42");
}

/// An invalid response fails only the call that it belongs to, and the connection stays usable.
#[tokio::test(flavor = "multi_thread")]
async fn invalid_response_fails_only_its_call() {
    let tools = tools_of("legacy").await;
    for (how, reason) in [
        ("too_long", " bytes exceed the limit of "),
        ("not_text", "not UTF-8"),
        ("cut", "EOF while parsing"),
        ("deep", "recursion limit exceeded"),
    ] {
        let failure = timeout(Duration::from_secs(10), tools.call(how, json!({}))).await.unwrap();
        let failure = failure.into_output().unwrap_err();
        assert_eq!(failure.kind, FailureKind::Failed);
        assert!(failure.message.contains("invalid response"), "{}", failure.message);
        assert!(failure.message.contains(reason), "{}", failure.message);
        assert_eq!(tools.call("add", json!({"x": 1, "y": 2})).await.model_text(), "3", "{how}");
    }
    assert_eq!(tools.call("twice", json!({})).await.model_text(), "once");
    assert_eq!(tools.call("add", json!({"x": 1, "y": 2})).await.model_text(), "3");
}

/// A response with an unknown id is ignored, so the call fails at the idle timeout.
#[tokio::test(flavor = "multi_thread")]
async fn missing_response_hits_the_idle_timeout() {
    let server =
        server("legacy").with_options(ServerOptions::default().with_idle_timeout(Duration::from_millis(200)));
    let tools = Toolset::new().with_source(McpSource::connect("faulty", server).await.unwrap());
    let failure = tools.call("wrong_id", json!({})).await.into_output().unwrap_err();
    assert_eq!((failure.kind, &*failure.message), (FailureKind::TimedOut, "timed out after 200 ms"));
    assert_eq!(tools.call("add", json!({"x": 1, "y": 2})).await.model_text(), "3");
}

/// A call that times out is cancelled on the server, and its late response is ignored.
#[tokio::test(flavor = "multi_thread")]
async fn timed_out_call_is_cancelled_at_the_server() {
    let tools = tools_of("legacy").await;
    let wait = tools.get("wait").await.unwrap();
    let deadline = ToolContext::default().limit_deadline(Instant::now() + Duration::from_millis(50));
    let result = wait.invoke_with(json!({"pause": 300}), &deadline).await.into_result();
    assert_eq!(result.failure().unwrap().kind, FailureKind::TimedOut);
    // The server handles requests one at a time, so it reads the cancellation only after it has
    // sent its late response.
    let cancelled = async {
        while tools.call("cancelled", json!({})).await.model_text() != "1" {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(5), cancelled).await.unwrap();
}

/// A progress sink that collects all reports.
#[derive(Clone, Default)]
pub(crate) struct Reports(pub(crate) Arc<Mutex<Vec<Progress>>>);

impl ProgressSink for Reports {
    fn report(&self, call_id: &str, progress: Progress) {
        assert_eq!(call_id, "call_1");
        self.0.lock().unwrap().push(progress);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_is_reported_and_resets_the_idle_timeout() {
    let server =
        server("legacy").with_options(ServerOptions::default().with_idle_timeout(Duration::from_millis(800)));
    let tools = Toolset::new().with_source(McpSource::connect("faulty", server).await.unwrap());
    let reports = Reports::default();
    let run = RunContext { progress: Some(Arc::new(reports.clone())), ..RunContext::default() };
    let cx = ToolContext::new(Arc::new(run), "call_1");
    let done = tools.call_with("progress", json!({"pause": 400}), &cx).await;
    assert_eq!(done.model_text(), "done");
    let steps: Vec<_> =
        reports.0.lock().unwrap().iter().map(|report| (report.progress, report.total)).collect();
    assert_eq!(steps, [(1.0, Some(3.0)), (2.0, Some(3.0)), (3.0, Some(3.0))]);
}

/// Structured content is transferred unchanged over a real connection.
#[tokio::test(flavor = "multi_thread")]
async fn structured_content_is_unchanged() {
    let tools = tools_of("legacy").await;
    let echo = async |result: Value| tools.call("echo", result).await.into_output().unwrap();
    assert_eq!(echo(json!({"content": [], "structuredContent": null})).await.structured, Some(Value::Null));
    assert_eq!(echo(json!({"content": []})).await.structured, None);
    let exact = json!({"content": [], "structuredContent": {"b": 1.0, "a": [1, null, "é"]}});
    assert_eq!(echo(exact.clone()).await.structured.as_ref(), exact.get("structuredContent"));
}

/// Tools whose definition differs from the accepted one are withheld with a diagnostic.
#[tokio::test(flavor = "multi_thread")]
async fn changed_tool_is_withheld() {
    let folder = tempfile::tempdir().unwrap();
    let pins = PinFile::new(folder.path().join("pins.json")).server("faulty");
    let list = async |mode: &str| {
        let options = ServerOptions::default().with_pins(pins.clone());
        let source = McpSource::connect("faulty", server(mode).with_options(options)).await.unwrap();
        source.tools(&ListContext::default()).await.unwrap()
    };
    let accepted = list("legacy").await;
    assert!(accepted.get("add").is_some() && accepted.diagnostics().is_empty());
    let changed = list("bad_tools").await;
    assert_eq!(changed.tools().len(), 0, "{changed:?}");
    let reasons: Vec<_> = changed.diagnostics().iter().map(ToString::to_string).collect();
    assert!(reasons.concat().contains("is withheld until its definition is accepted"), "{reasons:?}");
    pins.accept(&pins.changes().unwrap()).unwrap();
    assert!(!list("bad_tools").await.tools().is_empty());
}
