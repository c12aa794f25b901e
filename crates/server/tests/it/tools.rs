//! Tests of the routes of tools, and of the access rules.

use expect_test::expect;
use haft_core::tool::Principal;
use haft_http::server::AccessConfig;
use haft_testing::ScriptedModel;
use serde_json::json;

use crate::{TestServer, events, send, store_file};

#[tokio::test]
async fn tools_are_listed() {
    let server = TestServer::start(&ScriptedModel::new(), None).await;
    let (status, names) = send(server.get("/tools/names")).await;
    assert_eq!((status.as_u16(), names), (200, json!({"names": ["add", "pay", "hang"], "count": 3})));
    let (_, tools) = send(server.get("/tools")).await;
    assert_eq!(tools["count"], 3);
    expect![[r#"
        {
          "name": "add",
          "description": "Adds two integers.",
          "input_schema": {
            "type": "object",
            "properties": {
              "x": {
                "type": "integer"
              },
              "y": {
                "type": "integer"
              }
            },
            "required": [
              "x",
              "y"
            ],
            "additionalProperties": false
          }
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&tools["tools"][0]).unwrap());
    let (_, add) = send(server.get("/tools/add")).await;
    assert_eq!(add, tools["tools"][0]);
    let (status, error) = send(server.get("/tools/x")).await;
    assert_eq!((status.as_u16(), error), (404, json!({"detail": "Tool 'x' not found"})));
    server.stop().await;
}

#[tokio::test]
async fn tools_are_called() {
    let server = TestServer::start(&ScriptedModel::new(), None).await;
    for (tool, body, expected_status, expected) in [
        (
            "add",
            json!({"arguments": {"x": 1, "y": "2"}}),
            200,
            json!({"success": true, "result": "3", "error": null, "warning": null}),
        ),
        ("sub", json!({"arguments": {}}), 404, json!({"detail": "Tool 'sub' not found"})),
    ] {
        let (status, result) = send(server.post(&format!("/tools/{tool}/call"), &body)).await;
        assert_eq!((status.as_u16(), result), (expected_status, expected), "{tool}");
    }
    let (status, result) = send(server.post("/tools/add/call", &json!({"arguments": {"x": 1}}))).await;
    assert_eq!((status.as_u16(), &result["success"]), (422, &json!(false)));
    assert!(result["error"].as_str().unwrap().contains("\"y\""), "{result}");
    let (status, error) = send(server.post("/tools/add/call", &json!({"args": {"x": 1}}))).await;
    assert_eq!(status, 422);
    assert!(
        error["detail"]
            .as_str()
            .unwrap()
            .starts_with("invalid body: /: unknown property \"args\"; known properties: \"arguments\""),
        "{error}"
    );
    server.stop().await;
}

/// FAULTS H1: 401, 403, 413, and 404 for the session of another principal.
#[tokio::test]
async fn foreign_requests_are_rejected() {
    let (_folder, path) = store_file();
    let principal = |id: &str| Principal { id: id.to_owned(), ..Principal::default() };
    let access = AccessConfig::default()
        .with_bearer_token("token-a", principal("ann"))
        .with_bearer_token("token-b", principal("bob"));
    let model = ScriptedModel::new().reply_text("Hi.").reply_text("Hi again.");
    let server = TestServer::with_access(&model, Some(&path), access).await;
    assert_eq!(send(server.get("/health")).await.0, 200);
    let names = || server.get("/tools/names");
    assert_eq!(send(names()).await.0, 401);
    assert_eq!(send(names().bearer_auth("wrong")).await.0, 401);
    assert_eq!(send(names().bearer_auth("token-a")).await.0, 200);
    let names = || names().bearer_auth("token-a");
    assert_eq!(send(names().header("host", "evil.example")).await.0, 403);
    assert_eq!(send(names().header("origin", "https://evil.example")).await.0, 403);
    let body = json!({"messages": [{"role": "user", "content": "x".repeat((4 << 20) + 1)}]});
    assert_eq!(send(server.post("/chat", &body).bearer_auth("token-a")).await.0, 413);

    let body = json!({"messages": [{"role": "user", "content": "Hello."}], "session_id": "talk"});
    assert_eq!(send(server.post("/chat", &body).bearer_auth("token-a")).await.0, 200);
    assert_eq!(send(server.get("/sessions/talk").bearer_auth("token-a")).await.0, 200);
    let started =
        server.post("/sessions/talk/runs", &json!({"messages": [{"role": "user", "content": "Hello."}]}));
    let (_, run) = send(started.bearer_auth("token-a")).await;
    let run = run["run_id"].as_str().unwrap();
    let own = server.get(&format!("/runs/{run}/events")).bearer_auth("token-a").send().await.unwrap();
    assert!(!events(own).await.is_empty());
    for path in [format!("/runs/{run}"), format!("/runs/{run}/events"), "/sessions/talk/events".to_owned()] {
        assert_eq!(send(server.get(&path).bearer_auth("token-b")).await.0, 404, "{path}");
    }
    let decision = json!({"call_id": "1", "decision": {"type": "approved"}});
    let decide = server.post(&format!("/runs/{run}/decisions"), &decision);
    assert_eq!(send(decide.bearer_auth("token-b")).await.0, 404);
    let (status, error) = send(server.get("/sessions/talk").bearer_auth("token-b")).await;
    assert_eq!((status.as_u16(), error), (404, json!({"detail": "there is no session \"talk\""})));
    server.stop().await;
}
