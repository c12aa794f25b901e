use std::{
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
use haft_mcp::McpSource;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::server;

async fn tools_of(mode: &str) -> Toolset {
    Toolset::new().with_source(McpSource::connect("faulty", server(mode)).await.unwrap())
}

/// Behaviour F41 (stdio): a server of either era is recognised by itself, also one that is slow to start,
/// one that ends or says nothing when it is asked in the words of the other, and one that answers with an older
/// version.
#[tokio::test(flavor = "multi_thread")]
async fn the_same_tool_of_either_era() {
    let eras =
        ["legacy", "modern", "slow_modern", "ends_when_probed", "ignores_probe", "dated"].map(async |era| {
            let sum = tools_of(era).await.call("add", json!({"x": 17, "y": 25})).await;
            assert_eq!(sum.to_json()["result"], json!("42"), "{era}");
        });
    join_all(eras).await;
}

/// Behaviour F43.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_server_calls_an_error_is_a_failed_call() {
    let tools = tools_of("legacy").await;
    let failure = tools.call("error", json!({})).await.into_output().unwrap_err();
    assert_eq!((failure.kind, &*failure.message), (FailureKind::Failed, "no such file"));
    let failure = tools.call("rpc_error", json!({})).await.into_output().unwrap_err();
    assert_eq!(failure.kind, FailureKind::Failed);
    assert_eq!(failure.message, r#"out of paper (code -32000): {"tray":2}"#);
    assert_eq!(tools.call("add", json!({"x": 1, "y": 2})).await.model_text(), "3");
}

/// Behaviour F45, F81, F46.
#[tokio::test(flavor = "multi_thread")]
async fn one_bad_tool_costs_itself() {
    let list = tools_of("bad_tools").await.list(&ListContext::default()).await;
    let shown: Vec<_> =
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
            "name": "no_description_a0da7258ac55",
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
    .assert_eq(&serde_json::to_string_pretty(&shown).unwrap());
    let diagnostics: Vec<_> = list.diagnostics().iter().map(ToString::to_string).collect();
    // What the schema engine says of a schema is the engine's.
    let ours: Vec<_> = diagnostics.iter().filter_map(|line| line.split(": invalid schema").next()).collect();
    expect![[r#"
        tool "null_schema" of mcp:faulty is quarantined: its inputSchema is no schema but null
        tool "bad_type" of mcp:faulty is quarantined: its inputSchema
        tool "remote" of mcp:faulty is quarantined: its inputSchema
        tool "number 5" of mcp:faulty is quarantined: it has no name"#]]
    .assert_eq(&ours.join("\n"));
}

/// Behaviour F47.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_is_read_to_its_end_and_no_further() {
    let names = tools_of("empty_cursor").await.names().await;
    assert_eq!(names, ["first", "second"]);
    for (mode, reason) in [
        ("circular", "its list of tools comes back to the page \"again\""),
        ("endless", "its list of tools has more than 100 pages"),
    ] {
        assert_eq!(McpSource::connect("faulty", server(mode)).await.unwrap_err().reason, reason);
    }
}

async fn listed(tools: &ToolList) -> u32 {
    tools.get("listed").unwrap().invoke(json!({})).await.model_text().parse().unwrap()
}

/// Waits until the server was asked for its list so often.
async fn listed_times(tools: &ToolList, times: u32) {
    let asked = async {
        while listed(tools).await < times {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(10), asked).await.unwrap();
}

async fn offered(source: &McpSource, tool: &str) {
    let changed = async {
        while source.tools(&ListContext::default()).await.unwrap().get(tool).is_none() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(10), changed).await.unwrap();
}

/// Behaviour F48: a list that did not change is the same snapshot, and one that cannot be read leaves the old one.
#[tokio::test(flavor = "multi_thread")]
async fn a_notice_of_nothing_new_changes_nothing() {
    for mode in ["legacy", "refuses_again"] {
        let source = McpSource::connect("faulty", server(mode)).await.unwrap();
        let before = source.tools(&ListContext::default()).await.unwrap();
        for times in 2..=3 {
            before.get("change").unwrap().invoke(json!({})).await;
            listed_times(&before, times).await;
        }
        assert_eq!(source.tools(&ListContext::default()).await.unwrap().id(), before.id(), "{mode}");
    }
}

/// Behaviour F48: one that did is another, with the new tool.
#[tokio::test(flavor = "multi_thread")]
async fn a_notice_brings_the_new_tools() {
    let source = McpSource::connect("faulty", server("growing")).await.unwrap();
    let before = source.tools(&ListContext::default()).await.unwrap();
    assert_eq!(before.names().collect::<Vec<_>>(), ["change", "listed"]);
    assert!(before.get("change").unwrap().invoke(json!({})).await.is_success());
    offered(&source, "new_0").await;
}

/// Behaviour F48: a flood of notices is a few questions. The server reads them after the flood, so that these are
/// all that there are.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_notices_is_coalesced() {
    let source = McpSource::connect("faulty", server("legacy")).await.unwrap();
    let tools = source.tools(&ListContext::default()).await.unwrap();
    let begun = Instant::now();
    assert_eq!(tools.get("flood").unwrap().invoke(json!({})).await.model_text(), "flooded");
    listed_times(&tools, 2).await;
    let listed = listed(&tools).await;
    assert!(u128::from(listed) <= 3 + begun.elapsed().as_millis() / 100, "{listed}");
}

/// Behaviour F48: a notice during a refresh causes another, and a server that says so with every list is not asked
/// at full speed.
#[tokio::test(flavor = "multi_thread")]
async fn a_notice_during_a_refresh_causes_another() {
    let begun = Instant::now();
    let source = McpSource::connect("faulty", server("restless")).await.unwrap();
    for tool in ["new_0", "new_1", "new_2", "new_3"] {
        offered(&source, tool).await;
    }
    let listed = listed(&source.tools(&ListContext::default()).await.unwrap()).await;
    assert!(u128::from(listed) <= 2 + begun.elapsed().as_millis() / 100, "{listed}");
}

/// Behaviour F48: a server of the newer era that does not take the subscription at first is asked again, and what
/// changed until it did is read.
#[tokio::test(flavor = "multi_thread")]
async fn what_changed_before_a_subscription_is_seen() {
    let source = McpSource::connect("faulty", server("listening")).await.unwrap();
    offered(&source, "new_0").await;
}

/// Every limit of a server can be set.
#[tokio::test(flavor = "multi_thread")]
async fn limits_can_be_set() {
    let reason = async |server| McpSource::connect("faulty", server).await.unwrap_err().reason;
    let pages = reason(server("endless").with_list_pages(2)).await;
    assert_eq!(pages, "its list of tools has more than 2 pages");
    let slow = reason(server("mute_list").with_list_timeout(Duration::from_millis(100))).await;
    assert_eq!(slow, "it did not list its tools within 100ms");
    // Far less time than the probe has by default.
    let hasty = server("ignores_probe").with_handshake_timeout(Duration::from_millis(2900));
    let narrow = hasty.with_line_bytes(4000);
    let tools = Toolset::new().with_source(McpSource::connect("faulty", narrow).await.unwrap());
    let long = json!({"content": [{"type": "text", "text": "x".repeat(4000)}]});
    let failure = tools.call("echo", long).await.into_output().unwrap_err();
    assert!(failure.message.ends_with("at most 4000 are read (code -32700)"), "{}", failure.message);
}

/// Behaviour F52.
#[tokio::test(flavor = "multi_thread")]
async fn a_child_sees_the_environment_that_it_is_given() {
    let path = std::env::var("PATH").expect("the parent has an environment");
    let server = server("legacy").with_env("GREETING", "hello").with_inherited(["PATH", "HAFT_NOT_SET"]);
    let tools = Toolset::new().with_source(McpSource::connect("faulty", server).await.unwrap());
    let environment = tools.call("env", json!({})).await.into_output().unwrap().structured.unwrap();
    assert_eq!(environment, json!({"PATH": path, "GREETING": "hello"}));
}

/// Behaviour P4.
#[tokio::test(flavor = "multi_thread")]
async fn noise_is_survived() {
    let sum = tools_of("noisy").await.call("add", json!({"x": 17, "y": 25})).await;
    assert_eq!(sum.model_text(), "42");
}

/// Behaviour P5.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_cannot_be_read_fails_its_call() {
    let tools = tools_of("legacy").await;
    for (how, reason) in [
        ("too_long", "it is 20971"),
        ("not_text", "it is not UTF-8"),
        ("cut", "EOF while parsing"),
        ("deep", "recursion limit exceeded"),
    ] {
        let failure = timeout(Duration::from_secs(10), tools.call(how, json!({}))).await.unwrap();
        let failure = failure.into_output().unwrap_err();
        assert_eq!(failure.kind, FailureKind::Failed);
        assert!(failure.message.contains("the answer cannot be read"), "{}", failure.message);
        assert!(failure.message.contains(reason), "{}", failure.message);
        assert_eq!(tools.call("add", json!({"x": 1, "y": 2})).await.model_text(), "3", "{how}");
    }
    assert_eq!(tools.call("twice", json!({})).await.model_text(), "once");
    assert_eq!(tools.call("add", json!({"x": 1, "y": 2})).await.model_text(), "3");
}

/// Behaviour P5: a wrong id, and a silent server.
#[tokio::test(flavor = "multi_thread")]
async fn silence_has_a_deadline() {
    let server = server("legacy").with_idle_timeout(Duration::from_millis(200));
    let tools = Toolset::new().with_source(McpSource::connect("faulty", server).await.unwrap());
    let failure = tools.call("wrong_id", json!({})).await.into_output().unwrap_err();
    assert_eq!((failure.kind, &*failure.message), (FailureKind::TimedOut, "timed out after 200 ms"));
    assert_eq!(tools.call("add", json!({"x": 1, "y": 2})).await.model_text(), "3");
}

/// Behaviour P7.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_given_up_is_cancelled() {
    let tools = tools_of("legacy").await;
    let wait = tools.get("wait").await.unwrap();
    let deadline = ToolContext::default().with_deadline(Instant::now() + Duration::from_millis(50));
    let result = wait.invoke_with(json!({"pause": 300}), &deadline).await.into_result();
    assert_eq!(result.failure().unwrap().kind, FailureKind::TimedOut);
    // The server reads the notice after its late answer, which nobody minds.
    let heard = async {
        while tools.call("cancelled", json!({})).await.model_text() != "1" {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(5), heard).await.unwrap();
}

#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<Progress>>>);

impl ProgressSink for Seen {
    fn report(&self, call_id: &str, progress: Progress) {
        assert_eq!(call_id, "call_1");
        self.0.lock().unwrap().push(progress);
    }
}

/// Behaviour F41, progress: it is reported in order, and keeps a call alive.
#[tokio::test(flavor = "multi_thread")]
async fn progress_is_reported() {
    let server = server("legacy").with_idle_timeout(Duration::from_millis(800));
    let tools = Toolset::new().with_source(McpSource::connect("faulty", server).await.unwrap());
    let seen = Seen::default();
    let run = RunContext { progress: Some(Arc::new(seen.clone())), ..RunContext::default() };
    let cx = ToolContext::new(Arc::new(run), "call_1");
    let done = tools.call_with("progress", json!({"pause": 400}), &cx).await;
    assert_eq!(done.model_text(), "done");
    let steps: Vec<_> = seen.0.lock().unwrap().iter().map(|report| (report.progress, report.total)).collect();
    assert_eq!(steps, [(1.0, Some(3.0)), (2.0, Some(3.0)), (3.0, Some(3.0))]);
}

/// Behaviour F42 over a real connection: structured null is not nothing.
#[tokio::test(flavor = "multi_thread")]
async fn structured_content_arrives_exactly() {
    let tools = tools_of("legacy").await;
    let echo = async |result: Value| tools.call("echo", result).await.into_output().unwrap();
    assert_eq!(echo(json!({"content": [], "structuredContent": null})).await.structured, Some(Value::Null));
    assert_eq!(echo(json!({"content": []})).await.structured, None);
    let exact = json!({"content": [], "structuredContent": {"b": 1.0, "a": [1, null, "é"]}});
    assert_eq!(echo(exact.clone()).await.structured.as_ref(), exact.get("structuredContent"));
}
