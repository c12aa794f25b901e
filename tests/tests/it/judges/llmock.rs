//! `llmock`: a server that fails as providers do, and gives a verdict on its client.

use std::{process::Command, sync::Arc, time::Duration};

use futures::TryStreamExt as _;
use haft_core::{
    ChatModel, Message,
    model::{ChatRequest, ModelError, TimeoutPhase},
};
use haft_openai::{ChatCompletions, Responses, Timeouts};
use serde_json::{Value, json};

use super::{Server, agents, answer, at, installed};

fn start() -> Option<Server> {
    let place = installed("llmock")?;
    let serve = |port: u16| {
        let mut command = Command::new(place.join("bin/llmock"));
        command.args(["serve", "--port", &port.to_string()]);
        command
    };
    Some(Server::start(serve, "/health"))
}

/// What the server will do with the next requests.
fn script(server: &Server, behaviors: &Value) {
    server.post("/_llmock/scenario", &json!({"behaviors": behaviors}));
}

/// The server has nothing to say against its client, not even a warning, after so many requests.
#[track_caller]
fn acquitted(server: &Server, attempts: u64) {
    let verdict = server.get("/_llmock/verdict");
    let findings = verdict["findings"].as_array().unwrap();
    // It sees who stops reading only while it has more to send: whether there was an error is asserted here.
    let holds = |finding: &&Value| finding["code"] != "malformed_chunk_ignored";
    assert_eq!(findings.iter().find(holds), None, "{verdict:#}");
    assert_eq!(verdict["attempts"], attempts, "{verdict:#}");
    server.post("/_llmock/reset", &json!({}));
}

fn models(server: &Server) -> [Arc<dyn ChatModel>; 2] {
    let patience = Timeouts::default().with_idle(Duration::from_secs(3));
    let (chat, responses) = (ChatCompletions::builder("gpt-4o"), Responses::builder("gpt-4o"));
    [
        Arc::new(at(chat, server).timeouts(patience.clone()).build().unwrap()),
        Arc::new(at(responses, server).timeouts(patience).build().unwrap()),
    ]
}

async fn streamed(model: &dyn ChatModel, request: &ChatRequest) -> Result<(), ModelError> {
    model.stream(request).try_for_each(|_| async { Ok(()) }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_are_tried_again_as_they_should_be() {
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
            script(&server, &json!([{"type": "fail", "status": 429, "retry_after": 0.3, "times": 2}]));
            ask().await.unwrap();
            acquitted(&server, 3);
            script(&server, &json!([{"type": "fail", "status": 503, "times": 3}]));
            ask().await.unwrap();
            acquitted(&server, 4);
            for status in [400, 401, 403, 404, 422] {
                script(&server, &json!([{"type": "fail", "status": status}]));
                ask().await.unwrap_err();
                acquitted(&server, 1);
            }
        }
    }
}

/// A stream that breaks is an error, whichever way it breaks, and who asks again has the whole.
#[tokio::test(flavor = "multi_thread")]
async fn a_broken_stream_is_never_taken_for_a_reply() {
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
            script(
                &server,
                &json!([{"type": "reply", "text": "Once there was a crab who knew.", "times": 2}, fault]),
            );
            let error = streamed(&*model, &request).await.unwrap_err();
            assert!(is_expected(&error), "{kind}: {error:?}");
            streamed(&*model, &request).await.unwrap();
            acquitted(&server, 2);
        }
    }
}

fn is_truncated(error: &ModelError) -> bool {
    matches!(error, ModelError::Truncated { partial, .. } if partial.tool_calls.is_empty())
}

/// An agent calls, through rate limits, calls that cannot be and arguments that are no JSON, and has its answer.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_comes_through() {
    let Some(server) = start() else { return };
    let call = json!({"type": "reply", "tool_calls": [{"name": "add", "arguments": {"x": 17, "y": 25}}]});
    let says = json!({"type": "reply", "text": "It is 42."});
    let busy = json!({"type": "fail", "status": 429, "retry_after": 0.2});
    for agent in agents(&server) {
        for is_watched in [false, true] {
            script(&server, &json!([busy, call, says]));
            assert_eq!(answer(&agent, "What is 17 plus 25?", is_watched).await, "It is 42.");
            acquitted(&server, 3);
            for kind in ["malformed_arguments", "unknown_tool"] {
                script(&server, &json!([{"type": "tool_fault", "kind": kind}, says]));
                answer(&agent, "What is 17 plus 25?", is_watched).await;
                let verdict = server.get("/_llmock/verdict");
                assert_eq!(verdict["findings"], json!([]), "{kind}: {verdict:#}");
                server.post("/_llmock/reset", &json!({}));
            }
        }
    }
}
