//! Tests with `llmock`, a server that injects failures and reports protocol violations of the
//! client.

use std::{process::Command, sync::Arc, time::Duration};

use futures::TryStreamExt as _;
use haft_core::{
    ChatModel, Message,
    model::{ChatRequest, ModelError, TimeoutPhase},
};
use haft_openai::{ChatCompletions, Responses, Timeouts};
use serde_json::{Value, json};

use super::{Server, agents, ask, connected_to, installed_folder};

fn start() -> Option<Server> {
    let place = installed_folder("llmock")?;
    let serve = |port: u16| {
        let mut command = Command::new(place.join("bin/llmock"));
        command.args(["serve", "--port", &port.to_string()]);
        command
    };
    Some(Server::start(serve, "/health"))
}

/// Sets the behaviour of the server for the next HTTP requests.
fn set_behaviour(server: &Server, behaviors: &Value) {
    server.post("/_llmock/scenario", &json!({"behaviors": behaviors}));
}

/// Asserts that the server received `attempts` HTTP requests and reports no protocol violation of
/// the client. Then resets the server.
#[track_caller]
fn assert_no_violations(server: &Server, attempts: u64) {
    let verdict = server.get("/_llmock/verdict");
    let findings = verdict["findings"].as_array().unwrap();
    // llmock reports `malformed_chunk_ignored` if it has not detected yet that the client has
    // closed the connection. Ignore this code, because the tests check the error of the client
    // themselves.
    let is_violation = |finding: &&Value| finding["code"] != "malformed_chunk_ignored";
    assert_eq!(findings.iter().find(is_violation), None, "{verdict:#}");
    assert_eq!(verdict["attempts"], attempts, "{verdict:#}");
    server.post("/_llmock/reset", &json!({}));
}

fn models(server: &Server) -> [Arc<dyn ChatModel>; 2] {
    let timeouts = Timeouts::default().with_idle(Duration::from_secs(3));
    let (chat, responses) = (ChatCompletions::builder("gpt-4o"), Responses::builder("gpt-4o"));
    [
        Arc::new(connected_to(chat, server).timeouts(timeouts.clone()).build().unwrap()),
        Arc::new(connected_to(responses, server).timeouts(timeouts).build().unwrap()),
    ]
}

async fn streamed(model: &dyn ChatModel, request: &ChatRequest) -> Result<(), ModelError> {
    model.stream(request).try_for_each(|_| async { Ok(()) }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn only_transient_failures_are_retried() {
    let Some(server) = start() else { return };
    for model in models(&server) {
        let request = ChatRequest::new([Message::user("Hello")]);
        for is_streamed in [false, true] {
            let ask = async || {
                if is_streamed {
                    streamed(&*model, &request).await
                } else {
                    model.chat(&request).await.map(|_| ())
                }
            };
            set_behaviour(&server, &json!([{"type": "fail", "status": 429, "retry_after": 0.3, "times": 2}]));
            ask().await.unwrap();
            assert_no_violations(&server, 3);
            set_behaviour(&server, &json!([{"type": "fail", "status": 503, "times": 3}]));
            ask().await.unwrap();
            assert_no_violations(&server, 4);
            for status in [400, 401, 403, 404, 422] {
                set_behaviour(&server, &json!([{"type": "fail", "status": status}]));
                ask().await.unwrap_err();
                assert_no_violations(&server, 1);
            }
        }
    }
}

/// Each kind of broken stream must cause an error. The next request must then receive the complete
/// reply.
#[tokio::test(flavor = "multi_thread")]
async fn broken_stream_is_an_error() {
    let Some(server) = start() else { return };
    for model in models(&server) {
        let request = ChatRequest::new([Message::user("Tell me a story of seven words.")]);
        for (kind, is_expected) in [
            ("disconnect", is_truncated as fn(&ModelError) -> bool),
            ("truncate", is_truncated),
            ("malformed", |error| {
                matches!(error, ModelError::InvalidResponse(_) | ModelError::Truncated { .. })
            }),
            ("stall", |error| matches!(error, ModelError::TimedOut { phase: TimeoutPhase::Idle, .. })),
        ] {
            let fault = json!({"type": "stream_fault", "kind": kind, "after_chunks": 6});
            set_behaviour(
                &server,
                &json!([{"type": "reply", "text": "Once there was a crab who knew.", "times": 2}, fault]),
            );
            let error = streamed(&*model, &request).await.unwrap_err();
            assert!(is_expected(&error), "{kind}: {error:?}");
            streamed(&*model, &request).await.unwrap();
            assert_no_violations(&server, 2);
        }
    }
}

fn is_truncated(error: &ModelError) -> bool {
    matches!(error, ModelError::Truncated { partial, .. } if partial.tool_calls.is_empty())
}

/// The server injects rate limits, calls to unknown tools, and arguments that are not JSON. The
/// agent must recover from all of them.
#[tokio::test(flavor = "multi_thread")]
async fn agent_recovers_from_rate_limits_and_invalid_calls() {
    let Some(server) = start() else { return };
    let call = json!({"type": "reply", "tool_calls": [{"name": "add", "arguments": {"x": 17, "y": 25}}]});
    let text = json!({"type": "reply", "text": "It is 42."});
    let busy = json!({"type": "fail", "status": 429, "retry_after": 0.2});
    for agent in agents(&server) {
        for is_streamed in [false, true] {
            set_behaviour(&server, &json!([busy, call, text]));
            assert_eq!(ask(&agent, "What is 17 plus 25?", is_streamed).await, "It is 42.");
            assert_no_violations(&server, 3);
            for kind in ["malformed_arguments", "unknown_tool"] {
                set_behaviour(&server, &json!([{"type": "tool_fault", "kind": kind}, text]));
                ask(&agent, "What is 17 plus 25?", is_streamed).await;
                let verdict = server.get("/_llmock/verdict");
                assert_eq!(verdict["findings"], json!([]), "{kind}: {verdict:#}");
                server.post("/_llmock/reset", &json!({}));
            }
        }
    }
}
