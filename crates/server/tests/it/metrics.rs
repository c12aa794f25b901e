//! Tests of `GET /metrics`.

use expect_test::expect;
use haft_core::{
    model::{ChatResponse, ModelError},
    tool::Principal,
    usage::Usage,
};
use haft_http::server::AccessConfig;
use haft_testing::ScriptedModel;
use serde_json::{Value, json};

use crate::{TestServer, send, store_file};

async fn metrics(server: &TestServer) -> String {
    let response = server.get("/metrics").send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/plain; version=0.0.4");
    let text = response.text().await.unwrap();
    for line in text.lines() {
        check_line(line);
    }
    text
}

/// Checks a line of the text format of Prometheus 0.0.4.
fn check_line(line: &str) {
    let is_name = |name: &str| {
        !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    if let Some(comment) = line.strip_prefix("# ") {
        let mut words = comment.splitn(3, ' ');
        let (kind, name, rest) = (words.next(), words.next(), words.next());
        assert!(is_name(name.unwrap()), "{line}");
        match kind.unwrap() {
            "HELP" => assert!(rest.is_some(), "{line}"),
            "TYPE" => assert!(["counter", "gauge", "histogram"].contains(&rest.unwrap()), "{line}"),
            _ => panic!("{line}"),
        }
        return;
    }
    let (series, value) = line.rsplit_once(' ').unwrap();
    assert!(value.parse::<f64>().is_ok(), "{line}");
    let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
    assert!(is_name(name), "{line}");
    // The values of the tests have no quotes and commas.
    for label in labels.strip_suffix('}').unwrap().split(',').filter(|label| !label.is_empty()) {
        let (label, value) = label.split_once('=').unwrap();
        assert!(is_name(label) && value.starts_with('"') && value.ends_with('"'), "{line}");
    }
}

/// Returns the lines that do not depend on times.
fn without_times(text: &str) -> String {
    let is_stable = |line: &&str| {
        let is_time = line.contains("_seconds_sum");
        !line.starts_with("# HELP") && !line.contains("_bucket{") && !is_time
    };
    text.lines().filter(is_stable).map(|line| format!("{line}\n")).collect()
}

fn question() -> Value {
    json!({"messages": [{"role": "user", "content": "17 + 25?"}], "use_tools": true})
}

/// Calls the tool `add` over MCP.
async fn call_over_mcp(server: &TestServer) {
    let post =
        |body: &Value| server.post("/mcp", body).header("accept", "application/json, text/event-stream");
    let client = json!({"name": "test", "version": "1"});
    let parameters = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": parameters});
    let response = post(&body).send().await.unwrap();
    let session = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    let body = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(post(&body).header("mcp-session-id", &session).send().await.unwrap().status(), 202);
    let parameters = json!({"name": "add", "arguments": {"x": 1, "y": 2}});
    let body = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": parameters});
    let response = post(&body).header("mcp-session-id", &session).send().await.unwrap();
    assert!(response.text().await.unwrap().contains('3'));
}

#[tokio::test]
async fn requests_calls_and_tokens_are_measured() {
    let mut answer = ChatResponse::new("It is 42.");
    answer.usage = Usage::one_request(1_000, 20);
    let model = ScriptedModel::new()
        .reply_calls([("1", "add", r#"{"x":17,"y":25}"#), ("2", "made_up", "{}")])
        .reply(answer)
        .fail(ModelError::Unauthorized("no key".to_owned()));
    let server = TestServer::start(&model, None).await;
    assert_eq!(send(server.post("/chat", &question())).await.0, 200);
    assert_eq!(send(server.post("/chat", &question())).await.0, 502);
    assert_eq!(send(server.post("/tools/add/call", &json!({"arguments": {"x": 1}}))).await.0, 422);
    assert_eq!(send(server.post("/tools/sub/call", &json!({}))).await.0, 404);
    assert_eq!(send(server.get("/no/such/path")).await.0, 404);
    call_over_mcp(&server).await;
    let text = metrics(&server).await;
    let buckets = text.lines().filter(|line| {
        line.starts_with("gen_ai_client_token_usage_bucket") && line.contains("gen_ai_token_type=\"input\"")
    });
    let boundaries: Vec<_> =
        buckets.map(|line| line.split("le=\"").nth(1).unwrap().split('"').next().unwrap()).collect();
    assert_eq!((boundaries.len(), boundaries[0], boundaries[13]), (15, "1", "67108864"));
    expect![[r##"
        # TYPE gen_ai_client_operation_duration_seconds histogram
        gen_ai_client_operation_duration_seconds_count{gen_ai_operation_name="chat",gen_ai_request_model="scripted"} 2
        gen_ai_client_operation_duration_seconds_count{error_type="unauthorized",gen_ai_operation_name="chat",gen_ai_request_model="scripted"} 1
        # TYPE gen_ai_client_token_usage histogram
        gen_ai_client_token_usage_sum{gen_ai_operation_name="chat",gen_ai_request_model="scripted",gen_ai_token_type="input"} 1000
        gen_ai_client_token_usage_count{gen_ai_operation_name="chat",gen_ai_request_model="scripted",gen_ai_token_type="input"} 1
        gen_ai_client_token_usage_sum{gen_ai_operation_name="chat",gen_ai_request_model="scripted",gen_ai_token_type="output"} 20
        gen_ai_client_token_usage_count{gen_ai_operation_name="chat",gen_ai_request_model="scripted",gen_ai_token_type="output"} 1
        # TYPE gen_ai_execute_tool_duration_seconds histogram
        gen_ai_execute_tool_duration_seconds_count{gen_ai_tool_name="add"} 2
        gen_ai_execute_tool_duration_seconds_count{error_type="invalid_arguments",gen_ai_tool_name="add"} 1
        gen_ai_execute_tool_duration_seconds_count{error_type="not_found",gen_ai_tool_name="_OTHER"} 2
        # TYPE haft_server_active_runs gauge
        haft_server_active_runs 0
        # TYPE haft_server_event_readers gauge
        haft_server_event_readers 0
        # TYPE http_server_request_duration_seconds histogram
        http_server_request_duration_seconds_count{http_request_method="POST",http_response_status_code="200",http_route="/chat"} 1
        http_server_request_duration_seconds_count{http_request_method="POST",http_response_status_code="200",http_route="/mcp"} 2
        http_server_request_duration_seconds_count{http_request_method="POST",http_response_status_code="202",http_route="/mcp"} 1
        http_server_request_duration_seconds_count{http_request_method="POST",http_response_status_code="404",http_route="/tools/{name}/call"} 1
        http_server_request_duration_seconds_count{http_request_method="POST",http_response_status_code="422",http_route="/tools/{name}/call"} 1
        http_server_request_duration_seconds_count{http_request_method="POST",http_response_status_code="502",http_route="/chat"} 1
    "##]].assert_eq(&without_times(&text));
    server.stop().await;
}

#[tokio::test]
async fn runs_and_event_streams_in_progress_are_counted() {
    let (_folder, path) = store_file();
    let model = ScriptedModel::new().reply_calls([("1", "hang", "{}")]);
    let server = TestServer::start(&model, Some(&path)).await;
    let body = json!({"messages": [{"role": "user", "content": "Wait."}]});
    let (_, run) = send(server.post("/sessions/talk/runs", &body)).await;
    let run = run["run_id"].as_str().unwrap();
    let mut stream = server.get(&format!("/runs/{run}/events")).send().await.unwrap();
    let mut received = String::new();
    while !received.contains("call_started") {
        received += std::str::from_utf8(&stream.chunk().await.unwrap().unwrap()).unwrap();
    }
    let text = metrics(&server).await;
    assert!(text.contains("\nhaft_server_active_runs 1\n"), "{text}");
    assert!(text.contains("\nhaft_server_event_readers 1\n"), "{text}");
    assert_eq!(send(server.post(&format!("/runs/{run}/cancel"), &json!({}))).await.0, 200);
    assert!(stream.text().await.unwrap().contains("\"error\""));
    let text = metrics(&server).await;
    assert!(text.contains("\nhaft_server_active_runs 0\n"), "{text}");
    assert!(text.contains("\nhaft_server_event_readers 0\n"), "{text}");
    server.stop().await;
}

#[tokio::test]
async fn metrics_need_the_token() {
    let principal = Principal { id: "ann".to_owned(), ..Principal::default() };
    let access = AccessConfig::default().with_bearer_token("token-a", principal);
    let server = TestServer::with_access(&ScriptedModel::new(), None, access).await;
    assert_eq!(send(server.get("/metrics")).await.0, 401);
    let (status, text) = send(server.get("/metrics").bearer_auth("token-a")).await;
    assert_eq!(status, 200);
    // The rejected request is measured, too.
    let rejected = "http_response_status_code=\"401\",http_route=\"/metrics\"";
    assert!(text.as_str().unwrap().contains(rejected), "{text}");
    server.stop().await;
}
