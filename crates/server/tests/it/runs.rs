//! Tests of stored runs over HTTP.

use std::time::Duration;

use haft_testing::ScriptedModel;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{TestServer, events, send, store_file};

pub(crate) fn message(text: &str) -> Value {
    json!({"messages": [{"role": "user", "content": text}]})
}

pub(crate) async fn start(server: &TestServer, text: &str) -> String {
    let (status, run) = send(server.post("/sessions/talk/runs", &message(text))).await;
    assert_eq!(status, 201, "{run}");
    run["run_id"].as_str().unwrap().to_owned()
}

/// Waits until the run has the status `status`.
pub(crate) async fn until(server: &TestServer, run: &str, status: &str) -> Value {
    for _ in 0..500 {
        let (_, shown) = send(server.get(&format!("/runs/{run}"))).await;
        if shown["status"] == status {
            return shown;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("the run does not become {status}")
}

/// Reads the events of the run until a call has started, then leaves.
pub(crate) async fn until_called(server: &TestServer, run: &str) {
    let mut events = server.get(&format!("/runs/{run}/events")).send().await.unwrap();
    let mut text = String::new();
    while !text.contains("call_started") {
        text += std::str::from_utf8(&events.chunk().await.unwrap().unwrap()).unwrap();
    }
}

#[tokio::test]
async fn approval_survives_a_restart() {
    let (_folder, path) = store_file();
    let model = ScriptedModel::new().reply_calls([("1", "pay", r#"{"amount":5}"#)]).reply_text("Paid.");
    let server = TestServer::start(&model, Some(&path)).await;
    let run = start(&server, "Pay 5.").await;
    let shown = until(&server, &run, "suspended").await;
    assert_eq!(shown["pending"][0]["call"]["id"], "1", "{shown}");
    server.stop().await;

    let server = TestServer::start(&model, Some(&path)).await;
    let decisions = format!("/runs/{run}/decisions");
    let decide = |decision: &Value| json!({"call_id": "1", "decision": decision});
    let (approved, denied) = (json!({"type": "approved"}), json!({"type": "denied", "reason": "no"}));
    let (status, error) = send(server.post(&decisions, &json!({"call_id": "2", "decision": approved}))).await;
    assert_eq!(status, 404, "{error}");
    let (status, body) = send(server.post(&decisions, &decide(&approved))).await;
    assert_eq!(status, 200, "{body}");
    let shown = until(&server, &run, "finished").await;
    assert_eq!(shown["text"], "Paid.");
    assert!(shown["agent_steps"].to_string().contains("paid 5"), "{shown}");
    // The same decision again is no error, and another one is a conflict.
    assert_eq!(send(server.post(&decisions, &decide(&approved))).await.0, 200);
    assert_eq!(send(server.post(&decisions, &decide(&denied))).await.0, 409);
    server.stop().await;
}

#[tokio::test]
async fn events_are_read_again() {
    let (_folder, path) = store_file();
    let model = ScriptedModel::new().reply_calls([("1", "add", r#"{"x":1,"y":2}"#)]).reply_text("It is 3.");
    let server = TestServer::start(&model, Some(&path)).await;
    let run = start(&server, "1 + 2?").await;
    let all = events(server.get(&format!("/runs/{run}/events")).send().await.unwrap()).await;
    let kinds: Vec<_> = all.iter().map(|(_, event)| event["type"].as_str().unwrap()).collect();
    assert!(kinds.contains(&"call_finished") && kinds.ends_with(&["done"]), "{kinds:?}");
    let numbers: Vec<_> = all.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, (1..=all.len() as u64).collect::<Vec<_>>());

    let request = server.get(&format!("/runs/{run}/events")).header("Last-Event-ID", "3");
    let tail = events(request.send().await.unwrap()).await;
    assert_eq!(tail, all[3..]);
    let tail = events(server.get(&format!("/runs/{run}/events?after=4")).send().await.unwrap()).await;
    assert_eq!(tail, all[4..]);
    let end = server.get(&format!("/runs/{run}/events?after={}", all.len())).send().await.unwrap();
    assert_eq!(end.status(), 204);
    server.stop().await;
}

#[tokio::test]
async fn second_message_is_rejected_queued_or_interrupts() {
    let (_folder, path) = store_file();
    let model = ScriptedModel::new().reply_calls([("1", "hang", "{}")]).reply_text("Later.");
    let server = TestServer::start(&model, Some(&path)).await;
    let first = start(&server, "Wait.").await;
    until_called(&server, &first).await;
    let second = |on_active: &str| {
        let mut body = message("And this?");
        body["on_active"] = on_active.into();
        body
    };
    let (status, error) = send(server.post("/sessions/talk/runs", &second("reject"))).await;
    assert_eq!(
        (status.as_u16(), error),
        (409, json!({"detail": format!("the session has the active run {first:?}")}))
    );
    let (status, run) = send(server.post("/sessions/talk/runs", &second("enqueue"))).await;
    assert_eq!((status.as_u16(), run["run_id"].as_str()), (202, Some(first.as_str())));
    let (status, run) = send(server.post("/sessions/talk/runs", &second("interrupt"))).await;
    assert_eq!(status, 201, "{run}");
    assert_eq!(until(&server, &first, "cancelled").await["status"], "cancelled");
    let shown = until(&server, run["run_id"].as_str().unwrap(), "finished").await;
    assert_eq!(shown["text"], "Later.");
    // The enqueued message is not lost: it follows the cancelled run.
    let (_, messages) = send(server.get("/sessions/talk/messages?tools=false")).await;
    let texts: Vec<_> = messages["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["message"]["body"]["content"][0]["text"])
        .collect();
    assert_eq!(texts, ["Wait.", "And this?", "And this?", "Later."], "{messages}");
    server.stop().await;
}

/// A run does not end with the client that started it.
#[tokio::test]
async fn run_is_cancelled_on_request_only() {
    let (_folder, path) = store_file();
    let model = ScriptedModel::new().reply_calls([("1", "hang", "{}")]);
    let server = TestServer::start(&model, Some(&path)).await;
    let run = start(&server, "Wait.").await;
    until_called(&server, &run).await;
    let (_, shown) = send(server.get(&format!("/runs/{run}"))).await;
    assert_eq!(shown["status"], "active");
    let (status, shown) = send(server.post(&format!("/runs/{run}/cancel"), &json!({}))).await;
    assert_eq!((status.as_u16(), &shown["status"]), (200, &json!("cancelled")));
    let (_, messages) = send(server.get("/sessions/talk/messages?tools=false")).await;
    assert_eq!(messages["count"], 1, "{messages}");
    server.stop().await;
}

/// A run that waits for a decision can be cancelled. Its last event is an error.
#[tokio::test]
async fn waiting_run_is_cancelled() {
    let (_folder, path) = store_file();
    let model = ScriptedModel::new().reply_calls([("1", "pay", r#"{"amount":5}"#)]);
    let server = TestServer::start(&model, Some(&path)).await;
    let run = start(&server, "Pay 5.").await;
    until(&server, &run, "suspended").await;
    let (status, shown) = send(server.post(&format!("/runs/{run}/cancel"), &json!({}))).await;
    assert_eq!((status.as_u16(), &shown["status"]), (200, &json!("cancelled")));
    let all = events(server.get(&format!("/runs/{run}/events")).send().await.unwrap()).await;
    let kinds: Vec<_> = all.iter().map(|(_, event)| event["type"].as_str().unwrap()).collect();
    assert!(kinds.ends_with(&["suspended", "error"]), "{kinds:?}");
    let decision = json!({"call_id": "1", "decision": {"type": "approved"}});
    assert_eq!(send(server.post(&format!("/runs/{run}/decisions"), &decision)).await.0, 409);
    server.stop().await;
}

/// A server that stops leaves its runs to the next one.
#[tokio::test]
async fn run_continues_on_the_next_server() {
    let (_folder, path) = store_file();
    let model = ScriptedModel::new()
        .reply_calls([("1", "add", r#"{"x":1,"y":2}"#)])
        .reply_calls([("2", "add", r#"{"x":3,"y":4}"#)])
        .reply_text("Done.");
    let server = TestServer::start(&model, Some(&path)).await;
    let run = start(&server, "Add.").await;
    server.stop().await;
    let server = TestServer::start(&model, Some(&path)).await;
    let shown = until(&server, &run, "finished").await;
    assert_eq!(shown["text"], "Done.");
    assert_eq!(shown["agent_steps"].as_array().unwrap().len(), 2, "{shown}");
    server.stop().await;
}

/// A decision that does not fit is rejected, and the run still waits.
#[tokio::test]
async fn wrong_decision_is_rejected() {
    let (_folder, path) = store_file();
    let model = ScriptedModel::new().reply_calls([("1", "pay", r#"{"amount":5}"#)]).reply_text("Paid.");
    let server = TestServer::start(&model, Some(&path)).await;
    let run = start(&server, "Pay 5.").await;
    until(&server, &run, "suspended").await;
    let decide = |decision: Value| {
        server.post(&format!("/runs/{run}/decisions"), &json!({"call_id": "1", "decision": decision}))
    };
    let (status, error) = send(decide(json!({"type": "input", "value": 5}))).await;
    assert_eq!(status, 422, "{error}");
    // A misspelled field is not ignored, and a list is no decision.
    for decision in [json!({"type": "approved", "argument": {"amount": 1}}), json!(["approved", null])] {
        let (status, error) = send(decide(decision)).await;
        assert_eq!(status, 422, "{error}");
    }
    let (status, _) = send(decide(json!({"type": "denied", "reason": "no"}))).await;
    assert_eq!(status, 200);
    let shown = until(&server, &run, "finished").await;
    assert!(shown["agent_steps"].to_string().contains("denied: no"), "{shown}");
    assert_eq!(send(decide(json!({"type": "approved"}))).await.0, 409);
    server.stop().await;
}

/// Messages for a run that waits are stored with it, and delivered after the decision.
#[tokio::test]
async fn messages_for_a_waiting_run_are_stored() {
    let (_folder, path) = store_file();
    let model = ScriptedModel::new().reply_calls([("1", "pay", r#"{"amount":5}"#)]).reply_text("Paid.");
    let server = TestServer::start(&model, Some(&path)).await;
    let run = start(&server, "Pay 5.").await;
    until(&server, &run, "suspended").await;
    let sent = server.post(&format!("/runs/{run}/messages"), &json!({"content": "Hurry."}));
    assert_eq!(send(sent).await.0, 202);
    let mut steer = message("And log it.");
    steer["on_active"] = "steer".into();
    let (status, steered) = send(server.post("/sessions/talk/runs", &steer)).await;
    assert_eq!((status.as_u16(), steered["run_id"].as_str()), (202, Some(run.as_str())));
    server.stop().await;
    let server = TestServer::start(&model, Some(&path)).await;
    let body = json!({"call_id": "1", "decision": {"type": "approved"}});
    assert_eq!(send(server.post(&format!("/runs/{run}/decisions"), &body)).await.0, 200);
    until(&server, &run, "finished").await;
    let texts: Vec<_> = model.requests()[1].messages.iter().map(|message| message.text()).collect();
    assert!(texts.ends_with(&["Hurry.".into(), "And log it.".into()]), "{texts:?}");
    // Other readers see them, too.
    let all = events(server.get(&format!("/runs/{run}/events")).send().await.unwrap()).await;
    let received = all.iter().filter(|(_, event)| event["type"] == "messages_received");
    let received: Vec<_> = received.map(|(_, event)| event["delivery"].as_str().unwrap()).collect();
    assert_eq!(received, ["next_request", "next_request"]);
    server.stop().await;
}
