//! Tests of clients that leave, come back, and repeat requests.

use std::sync::Arc;

use haft_core::Toolset;
use haft_middleware::AgentExt as _;
use haft_react::ReactAgent;
use haft_server::Server;
use haft_session::{SessionKey, SessionStore, SqlStore};
use haft_testing::ScriptedModel;
use reqwest::Response;
use serde_json::{Value, json};

use crate::{
    TestServer, events,
    runs::{message, start, until, until_called},
    send, store_file,
};

/// Reads events until one has the type `kind`. Returns them with their numbers.
async fn read_until(response: &mut Response, kind: &str) -> Vec<(u64, Value)> {
    let mut text = String::new();
    let mut events = Vec::new();
    let mut number = 0;
    loop {
        text += std::str::from_utf8(&response.chunk().await.unwrap().unwrap()).unwrap();
        while let Some((line, rest)) = text.split_once('\n') {
            if let Some(id) = line.strip_prefix("id: ") {
                number = id.parse().unwrap();
            }
            if let Some(data) = line.strip_prefix("data: ") {
                events.push((number, serde_json::from_str(data).unwrap()));
            }
            text = rest.to_owned();
        }
        if events.iter().any(|(_, event): &(u64, Value)| event["type"] == kind) {
            return events;
        }
    }
}

/// Asks a question in the conversation `talk`, and reads the events until one has the type `kind`.
/// Returns the response and the id of the run.
async fn chat(server: &TestServer, fields: &Value, kind: &str) -> (Response, String) {
    let mut body = message("Hello.");
    body["session_id"] = "talk".into();
    body["stream"] = true.into();
    body["use_tools"] = true.into();
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let mut response = server.post("/chat", &body).send().await.unwrap();
    let events = read_until(&mut response, kind).await;
    let run = events[0].1["run_id"].as_str().unwrap().to_owned();
    (response, run)
}

/// Waits until the server has `count` streams of events.
async fn until_readers(server: &TestServer, count: usize) {
    let line = format!("haft_server_event_readers {count}\n");
    while !server.get("/metrics").send().await.unwrap().text().await.unwrap().contains(&line) {
        tokio::task::yield_now().await;
    }
}

async fn status(server: &TestServer, run: &str) -> Value {
    send(server.get(&format!("/runs/{run}"))).await.1["status"].clone()
}

/// FAULTS H2: the run is cancelled, unless the client has chosen otherwise.
#[tokio::test]
async fn client_that_leaves_cancels_its_run() {
    for (fields, is_cancelled_at_once, is_cancelled) in [
        (json!({}), true, true),
        (json!({"grace_seconds": 1}), false, true),
        (json!({"on_disconnect": "continue"}), false, false),
    ] {
        let (_folder, path) = store_file();
        let model = ScriptedModel::new().reply_calls([("1", "hang", "{}")]);
        let server = TestServer::start(&model, Some(&path)).await;
        let (response, run) = chat(&server, &fields, "call_started").await;
        drop(response);
        until_readers(&server, 0).await;
        if !is_cancelled_at_once {
            assert_eq!(status(&server, &run).await, "active", "{fields}");
        }
        if is_cancelled {
            until(&server, &run, "cancelled").await;
        } else {
            assert_eq!(send(server.post(&format!("/runs/{run}/cancel"), &json!({}))).await.0, 200);
        }
        server.stop().await;
    }
}

/// Another reader of the conversation still waits for the answer.
#[tokio::test]
async fn run_with_another_reader_continues() {
    let (_folder, path) = store_file();
    let model = ScriptedModel::new().reply_calls([("1", "hang", "{}")]);
    let server = TestServer::start(&model, Some(&path)).await;
    let (response, run) = chat(&server, &json!({}), "call_started").await;
    let mut reader = server.get("/sessions/talk/events").send().await.unwrap();
    read_until(&mut reader, "call_started").await;
    drop(response);
    until_readers(&server, 1).await;
    assert_eq!(status(&server, &run).await, "active");
    assert_eq!(send(server.post(&format!("/runs/{run}/cancel"), &json!({}))).await.0, 200);
    drop(reader);
    server.stop().await;
}

/// A client with a key that has lost its connection gets the answer of its first attempt.
#[tokio::test]
async fn lost_connection_with_a_key_is_repeated() {
    let (_folder, path) = store_file();
    let model = ScriptedModel::new().reply_calls([("1", "hang", "{}")]);
    let server = TestServer::start(&model, Some(&path)).await;
    let mut body = message("Hello.");
    body["session_id"] = "talk".into();
    body["stream"] = true.into();
    body["use_tools"] = true.into();
    let ask = || server.post("/chat", &body).header("Idempotency-Key", "a").send();
    let mut response = ask().await.unwrap();
    let first = read_until(&mut response, "call_started").await;
    drop(response);
    until_readers(&server, 0).await;
    let mut response = ask().await.unwrap();
    assert_eq!(read_until(&mut response, "call_started").await, first);
    let run = first[0].1["run_id"].as_str().unwrap();
    assert_eq!(send(server.post(&format!("/runs/{run}/cancel"), &json!({}))).await.0, 200);
    read_until(&mut response, "error").await;
    server.stop().await;
}

/// A reader of the events can be the client that the run depends on.
#[tokio::test]
async fn reader_that_leaves_cancels_the_run_by_choice() {
    let (_folder, path) = store_file();
    let model = ScriptedModel::new().reply_calls([("1", "hang", "{}")]);
    let server = TestServer::start(&model, Some(&path)).await;
    let run = start(&server, "Wait.").await;
    until_called(&server, &run).await;
    let request = server.get(&format!("/runs/{run}/events?on_disconnect=cancel"));
    let mut reader = request.send().await.unwrap();
    read_until(&mut reader, "call_started").await;
    drop(reader);
    until(&server, &run, "cancelled").await;
    server.stop().await;
}

/// An approval outlives the client that has asked for it.
#[tokio::test]
async fn approval_is_not_lost_with_its_client() {
    let (_folder, path) = store_file();
    let model = ScriptedModel::new().reply_calls([("1", "pay", r#"{"amount":5}"#)]).reply_text("Paid.");
    let server = TestServer::start(&model, Some(&path)).await;
    let (response, run) = chat(&server, &json!({}), "call_pending").await;
    drop(response);
    until(&server, &run, "suspended").await;
    let decision = json!({"call_id": "1", "decision": {"type": "approved"}});
    assert_eq!(send(server.post(&format!("/runs/{run}/decisions"), &decision)).await.0, 200);
    assert_eq!(until(&server, &run, "finished").await["text"], "Paid.");
    server.stop().await;
}

/// A browser that reloads, and a second tab, see the conversation and the run in progress.
#[tokio::test]
async fn new_reader_gets_a_snapshot_and_the_tail() {
    let (_folder, path) = store_file();
    let model = ScriptedModel::new().reply_text("Hello.").reply_calls([("1", "hang", "{}")]);
    let server = TestServer::start(&model, Some(&path)).await;
    let first = start(&server, "Hi.").await;
    until(&server, &first, "finished").await;
    let second = start(&server, "Wait.").await;
    until_called(&server, &second).await;

    let mut reader = server.get("/sessions/talk/events").send().await.unwrap();
    let all = read_until(&mut reader, "call_started").await;
    let (number, snapshot) = &all[0];
    assert_eq!((&snapshot["type"], &snapshot["active_run"]), (&json!("snapshot"), &json!(second)));
    let texts: Vec<_> = snapshot["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| &entry["message"]["body"]["content"][0]["text"])
        .collect();
    assert_eq!(texts, ["Hi.", "Hello.", "Wait."], "{snapshot}");
    let kinds: Vec<_> = all[1..].iter().map(|(_, event)| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds[..2], ["run_started", "request_started"], "{kinds:?}");
    assert_eq!(all[1].1["messages"][0]["body"]["content"][0]["text"], "Wait.");
    assert!(all[1..].iter().all(|(_, event)| event["run_id"] == second.as_str()), "{all:?}");
    assert_eq!(all[1].0, number + 1);

    // The number of the snapshot continues after it.
    let request = server.get("/sessions/talk/events").header("Last-Event-ID", number.to_string());
    let again = read_until(&mut request.send().await.unwrap(), "call_started").await;
    assert_eq!(again, all[1..]);
    assert_eq!(send(server.post(&format!("/runs/{second}/cancel"), &json!({}))).await.0, 200);
    server.stop().await;
}

/// The snapshot of a long run has the earlier conversation and the question.
#[tokio::test]
async fn snapshot_of_a_long_run_has_the_conversation() {
    let (_folder, path) = store_file();
    let mut model = ScriptedModel::new().reply_text("Hello.");
    for number in 0..45 {
        let calls =
            [0, 1, 2].map(|it| (format!("{number}-{it}"), "add", format!(r#"{{"x":{number},"y":{it}}}"#)));
        model = model.reply_calls(calls);
    }
    let model = model.reply_calls([("last", "hang", "{}")]);
    let server = TestServer::start(&model, Some(&path)).await;
    let first = start(&server, "Hi.").await;
    until(&server, &first, "finished").await;
    let second = start(&server, "Add a lot.").await;
    while model.requests().len() < 47 {
        tokio::task::yield_now().await;
    }
    let mut reader = server.get("/sessions/talk/events").send().await.unwrap();
    let (_, snapshot) = read_until(&mut reader, "snapshot").await.swap_remove(0);
    let entries = snapshot["entries"].as_array().unwrap();
    let texts: Vec<_> = entries.iter().map(|it| &it["message"]["body"]["content"][0]["text"]).collect();
    assert_eq!(texts, ["Hi.", "Hello.", "Add a lot."], "{snapshot}");
    drop(reader);
    assert_eq!(send(server.post(&format!("/runs/{second}/cancel"), &json!({}))).await.0, 200);
    server.stop().await;
}

/// A client with a number of an earlier conversation of this name is told.
#[tokio::test]
async fn number_of_an_earlier_conversation_is_replaced_by_a_snapshot() {
    let (_folder, path) = store_file();
    let model = ScriptedModel::new().reply_text("Hello.");
    let server = TestServer::start(&model, Some(&path)).await;
    let run = start(&server, "Hi.").await;
    until(&server, &run, "finished").await;
    for number in ["5000", "18446744073709551615"] {
        let request = server.get("/sessions/talk/events").header("Last-Event-ID", number);
        let events = read_until(&mut request.send().await.unwrap(), "snapshot").await;
        assert_eq!(events.len(), 1, "{events:?}");
    }
    server.stop().await;
}

/// A reader that was away for too long is told, and continues.
#[tokio::test]
async fn missed_events_are_replaced_by_a_snapshot() {
    let (_folder, path) = store_file();
    let model = ScriptedModel::new().reply_text("Hello.").reply_text("Hello again.");
    let server = TestServer::start(&model, Some(&path)).await;
    let first = start(&server, "Hi.").await;
    until(&server, &first, "finished").await;
    let (store, key) = (SqlStore::open_file(&path).await.unwrap(), SessionKey::new("talk").unwrap());
    let large = json!({"type": "text_delta", "text": "x".repeat(1_000_000)});
    for _ in 0..20 {
        store.append_events(&key, &first, vec![large.clone()]).await.unwrap();
    }
    let mut reader = server.get("/sessions/talk/events?after=1").send().await.unwrap();
    // The server has some events in memory.
    let (number, snapshot) = read_until(&mut reader, "snapshot").await.pop().unwrap();
    assert_eq!(snapshot["entries"].as_array().unwrap().len(), 2, "{snapshot}");
    let second = start(&server, "Hi again.").await;
    let tail = read_until(&mut reader, "done").await;
    assert!(tail.iter().all(|(after, event)| *after > number && event["run_id"] == second.as_str()));
    drop(reader);
    server.stop().await;
}

/// The events of an agent inside a call are events of the run, also for a reader that comes later.
#[tokio::test]
async fn events_of_sub_agents_are_stored() {
    let (_folder, path) = store_file();
    let child = ScriptedModel::new().reply_calls([("1", "add", r#"{"x":1,"y":2}"#)]).reply_text("3.");
    let child = ReactAgent::new(child, crate::toolset()).unwrap().into_tool("count", "Counts.");
    let model =
        ScriptedModel::new().reply_calls([("2", "count", r#"{"task":"1 + 2?"}"#)]).reply_text("It is 3.");
    let agent = ReactAgent::builder(model).tools(Toolset::new().with_tool(child));
    let store = SqlStore::open_file(&path).await.unwrap();
    let server = TestServer::serve(Server::builder(agent).store(Arc::new(store)).build().unwrap()).await;
    let run = start(&server, "1 + 2?").await;
    until(&server, &run, "finished").await;
    let all = events(server.get(&format!("/runs/{run}/events")).send().await.unwrap()).await;
    let nested = all.iter().filter(|(_, event)| event["type"] == "nested" && event["call_id"] == "2");
    let kinds: Vec<_> = nested.map(|(_, event)| event["event"]["type"].as_str().unwrap()).collect();
    assert!(kinds.contains(&"call_finished") && kinds.ends_with(&["request_finished"]), "{kinds:?}");
    server.stop().await;
}

/// A client that repeats a request, because it has lost the response, does not act twice.
#[tokio::test]
async fn repeated_request_acts_once() {
    let (_folder, path) = store_file();
    let model = ScriptedModel::new()
        .reply_calls([("1", "pay", r#"{"amount":5}"#)])
        .reply_text("Paid.")
        .reply_text("Hello.");
    let server = TestServer::start(&model, Some(&path)).await;
    let start = |text: &str, key: &str| {
        send(server.post("/sessions/talk/runs", &message(text)).header("Idempotency-Key", key))
    };
    let (status, run) = start("Pay 5.", "\"a\"").await;
    assert_eq!(status, 201, "{run}");
    let id = run["run_id"].as_str().unwrap().to_owned();
    let (status, again) = start("Pay 5.", "a").await;
    assert_eq!((status.as_u16(), &again["run_id"]), (202, &run["run_id"]));
    let (status, error) = start("Pay 6.", "a").await;
    assert_eq!(
        (status.as_u16(), error),
        (422, json!({"detail": "the Idempotency-Key \"a\" belongs to another request"}))
    );
    until(&server, &id, "suspended").await;

    for _ in 0..2 {
        let sent = server.post(&format!("/runs/{id}/messages"), &json!({"content": "Hurry."}));
        assert_eq!(send(sent.header("Idempotency-Key", "b")).await.0, 202);
        assert_eq!(start("Thanks.", "c").await.1["run_id"], id.as_str());
    }
    let decision = json!({"call_id": "1", "decision": {"type": "approved"}});
    assert_eq!(send(server.post(&format!("/runs/{id}/decisions"), &decision)).await.0, 200);
    until(&server, &id, "finished").await;
    let (_, messages) = send(server.get("/sessions/talk/messages?tools=false")).await;
    let texts: Vec<_> = messages["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["message"]["body"]["content"][0]["text"].as_str().unwrap())
        .collect();
    assert_eq!(texts, ["Pay 5.", "Hurry.", "Paid.", "Thanks.", "Hello."], "{messages}");

    // The answer of a run that is over, without and with a stream.
    let mut body = message("Bye.");
    body["session_id"] = "chat".into();
    let answer = || send(server.post("/chat", &body).header("Idempotency-Key", "d"));
    let model = model.reply_text("Bye.");
    let (_, first) = answer().await;
    let (status, second) = answer().await;
    assert_eq!((status.as_u16(), &second), (200, &first));
    assert_eq!(model.requests().len(), 4);
    // Where a repeated request would act again, the key is an error.
    let call = server.post("/tools/add/call", &json!({"arguments": {"x": 1, "y": 2}}));
    assert_eq!(send(call.header("Idempotency-Key", "e")).await.0, 422);
    server.stop().await;
}

/// FAULTS H3: an error is an event, and there is no answer.
#[tokio::test]
async fn failed_stream_ends_with_an_error() {
    let (_folder, path) = store_file();
    let error = || haft_core::model::ModelError::Unauthorized("the key is sk-secret".to_owned());
    let model = ScriptedModel::new().fail(error()).fail(error());
    let server = TestServer::start(&model, Some(&path)).await;
    for session in [Value::Null, json!("talk")] {
        let mut body = message("Hi.");
        body["session_id"] = session;
        body["stream"] = true.into();
        let events = events(server.post("/chat", &body).send().await.unwrap()).await;
        let kinds: Vec<_> = events.iter().map(|(_, event)| event["type"].as_str().unwrap()).collect();
        assert!(kinds.ends_with(&["error"]) && !kinds.contains(&"done"), "{kinds:?}");
        assert_eq!(events.last().unwrap().1["error"], "the model failed");
    }
    let (_, runs) = send(server.get("/sessions/talk/runs")).await;
    let id = runs["runs"][0]["id"].as_str().unwrap();
    let (_, run) = send(server.get(&format!("/runs/{id}"))).await;
    assert_eq!((&run["status"], &run["error"]), (&json!("failed"), &json!("the model failed")));
    server.stop().await;
}
