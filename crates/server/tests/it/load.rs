//! Tests with many requests at once, and of the shutdown.

use std::time::Duration;

use async_trait::async_trait;
use futures::{StreamExt as _, stream::FuturesUnordered};
use haft_core::{
    ChatModel,
    model::{ChatRequest, ChatResponse, ModelError, ModelProfile},
};
use haft_react::ReactAgent;
use haft_server::Server;
use haft_testing::ScriptedModel;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{
    TestServer,
    runs::{message, start, until, until_called},
    send, store_file,
};

/// FAULTS H4: requests beyond the limit are rejected at once, and the others go on.
#[tokio::test]
async fn overload_is_rejected_early() {
    let (_folder, path) = store_file();
    let model = ScriptedModel::new().reply_calls([("1", "hang", "{}")]);
    let server = TestServer::build(&model, Some(&path), |builder| builder.max_runs(1)).await;
    let run = start(&server, "Wait.").await;
    until_called(&server, &run).await;
    let call = server.post("/tools/add/call", &json!({"arguments": {"x": 1, "y": 2}}));
    for request in [
        server.post("/sessions/other/runs", &message("Hi.")),
        server.post("/chat", &message("Hi.")),
        call.try_clone().unwrap(),
    ] {
        let response = request.send().await.unwrap();
        assert_eq!(
            (response.status().as_u16(), &response.headers()["retry-after"]),
            (503, &"1".parse().unwrap())
        );
        let text = response.text().await.unwrap();
        assert_eq!(text, r#"{"detail":"too many runs are active: repeat the request later"}"#);
    }
    let mut chat = message("Hi.");
    chat["session_id"] = "other".into();
    assert_eq!(send(server.post("/chat", &chat)).await.0, 503);
    // A message for the active run needs no further permit.
    let queued = server.post("/sessions/talk/runs", &message("And then?"));
    assert_eq!(send(queued).await.0, 202);
    // A rejected start leaves nothing, and reads are no work.
    assert_eq!(send(server.get("/sessions/other")).await.0, 404);
    assert_eq!(send(server.post(&format!("/runs/{run}/cancel"), &json!({}))).await.0, 200);
    let (status, result) = loop {
        // The slot of the run is free soon after its end.
        let (status, result) = send(call.try_clone().unwrap()).await;
        if status != 503 {
            break (status, result);
        }
    };
    assert_eq!((status.as_u16(), &result["result"]), (200, &json!("3")));
    server.stop().await;
}

/// A model whose replies take a while.
struct Slow(ModelProfile);

#[async_trait]
impl ChatModel for Slow {
    fn profile(&self) -> &ModelProfile {
        &self.0
    }

    async fn chat(&self, _: &ChatRequest) -> Result<ChatResponse, ModelError> {
        tokio::time::sleep(Duration::from_millis(200)).await;
        Ok(ChatResponse::new("Done."))
    }
}

/// FAULTS H4: at five times the load, the accepted requests are answered, and the others are rejected
/// before.
#[tokio::test]
async fn accepted_requests_keep_their_pace() {
    let agent = ReactAgent::builder(Slow(ModelProfile::new("slow")));
    let server = TestServer::serve(Server::builder(agent).max_runs(4).build().unwrap()).await;
    let mut requests: FuturesUnordered<_> =
        (0..20).map(|_| send(server.post("/chat", &message("Hi.")))).collect();
    let mut statuses = Vec::new();
    while let Some((status, body)) = requests.next().await {
        assert!(status == 503 || body["text"] == "Done.", "{status} {body}");
        statuses.push(status.as_u16());
    }
    drop(requests);
    assert_eq!(statuses, [vec![503; 16], vec![200; 4]].concat());
    server.stop().await;
}

/// BEHAVIOUR: two first messages at the same time both survive.
#[tokio::test]
async fn two_first_messages_survive() {
    let (_folder, path) = store_file();
    let model = ScriptedModel::new().reply_text("One.").reply_text("Two.");
    let server = TestServer::start(&model, Some(&path)).await;
    let (one, other) = tokio::join!(
        send(server.post("/sessions/talk/runs", &message("First."))),
        send(server.post("/sessions/talk/runs", &message("Second."))),
    );
    for (status, run) in [&one, &other] {
        assert!(status.is_success(), "{run}");
        until(&server, run["run_id"].as_str().unwrap(), "finished").await;
    }
    let (_, messages) = send(server.get("/sessions/talk/messages")).await;
    let mut texts: Vec<_> = messages["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["message"]["body"]["content"][0]["text"].as_str().unwrap())
        .collect();
    texts.sort_unstable();
    assert_eq!(texts, ["First.", "One.", "Second.", "Two."], "{messages}");
    server.stop().await;
}

/// FAULTS H4: runs in progress are stored at the shutdown, and finished by the next server.
#[tokio::test(flavor = "multi_thread")]
async fn hundred_runs_survive_the_shutdown() {
    let (_folder, path) = store_file();
    let model = (0..100).fold(ScriptedModel::new(), |model, _| model.hang());
    let server = TestServer::start(&model, Some(&path)).await;
    let mut runs = Vec::new();
    for number in 0..100 {
        let started = server.post(&format!("/sessions/talk-{number}/runs"), &message("Hi."));
        let (status, run) = send(started).await;
        assert_eq!(status, 201, "{run}");
        runs.push(run["run_id"].as_str().unwrap().to_owned());
    }
    while model.requests().len() < 100 {
        tokio::task::yield_now().await;
    }
    server.stop().await;
    let model = (0..100).fold(model, |model, _| model.reply_text("Hello."));
    let server = TestServer::start(&model, Some(&path)).await;
    for run in runs {
        assert_eq!(until(&server, &run, "finished").await["text"], "Hello.");
    }
    server.stop().await;
}

/// FAULTS H1: the limit of a body holds without a length, too.
#[tokio::test]
async fn long_body_in_chunks_is_rejected() {
    let server = TestServer::start(&ScriptedModel::new(), None).await;
    let address = server.base.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!("POST /chat HTTP/1.1\r\nHost: {address}\r\nTransfer-Encoding: chunked\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    let (mut read, mut write) = stream.split();
    let send = async {
        for _ in 0..=64 {
            // The server may stop reading.
            if write.write_all(chunk.as_bytes()).await.is_err() {
                break;
            }
        }
    };
    let mut response = [0; 4096];
    let receive = async {
        let length = read.read(&mut response).await.unwrap();
        String::from_utf8_lossy(&response[..length]).into_owned()
    };
    let ((), response) = tokio::join!(send, receive);
    assert!(response.starts_with("HTTP/1.1 413 "), "{response}");
    assert!(response.ends_with(r#"{"detail":"the body is too long"}"#), "{response}");
    server.stop().await;
}

/// All errors have the same form, also those of the access rules and of the router.
#[tokio::test]
async fn errors_are_json() {
    let (_folder, path) = store_file();
    let server = TestServer::start(&ScriptedModel::new(), Some(&path)).await;
    for (request, status, detail) in [
        (server.get("/nothing"), 404, "there is no such route"),
        (server.post("/tools", &json!({})), 405, "method not allowed"),
        (server.get("/tools").header("host", "evil.example"), 403, "the header Host is not permitted"),
        (server.get("/sessions?after=x"), 400, "`after` is no value of `next`"),
        (
            server.get("/sessions/a%20b"),
            400,
            "\"a b\" is no id: write 1 to 128 letters, digits, `_`, `.`, `:` or `-`, first a letter, a digit or `_`",
        ),
    ] {
        let (code, body) = send(request).await;
        assert_eq!((code.as_u16(), body), (status, json!({"detail": detail})));
    }
    let (status, body) = send(server.get("/sessions?limit=x")).await;
    assert_eq!(status, 400);
    assert!(body["detail"].as_str().unwrap().contains("limit"), "{body}");
    server.stop().await;
}

/// The pages of a list have all conversations once.
#[tokio::test]
async fn conversations_are_paged_forked_and_rewound() {
    let (_folder, path) = store_file();
    let model =
        (0..3).fold(ScriptedModel::new(), |model, number| model.reply_text(format!("Hello {number}.")));
    let server = TestServer::start(&model, Some(&path)).await;
    let run = start(&server, "Hi.").await;
    until(&server, &run, "finished").await;
    let run = start(&server, "And?").await;
    until(&server, &run, "finished").await;
    let fork =
        |to: &str, until: u64| send(server.post("/sessions/talk/fork", &json!({"to": to, "until": until})));
    assert_eq!(fork("copy", 2).await.0, 201);
    assert_eq!(fork("copy", 2).await.0, 409);
    let (status, session) = send(server.post("/sessions/talk/rewind", &json!({"to": 2}))).await;
    assert_eq!((status.as_u16(), &session["entries"]), (200, &json!(5)), "{session}");
    let run = start(&server, "Again?").await;
    until(&server, &run, "finished").await;
    let texts: Vec<_> = model.requests()[2].messages.iter().map(|message| message.text()).collect();
    assert_eq!(texts, ["Hi.", "Hello 0.", "Again?"]);

    let (_, runs) = send(server.get("/sessions/talk/runs")).await;
    assert_eq!((&runs["count"], &runs["runs"][0]["usage"]["requests"]), (&json!(3), &json!(1)), "{runs}");
    let (_, found) = send(server.get("/search?q=hello")).await;
    assert_eq!(found["count"], 4, "{found}");
    let exported = server.get("/sessions/copy/export").send().await.unwrap();
    assert_eq!(exported.headers()["content-type"], "application/jsonl");
    assert_eq!(exported.text().await.unwrap().lines().count(), 3);
    let (mut ids, mut path) = (Vec::new(), "/sessions?limit=1".to_owned());
    loop {
        let (_, page) = send(server.get(&path)).await;
        ids.extend(page["sessions"].as_array().unwrap().iter().map(|it| it["id"].clone()));
        let Value::String(next) = &page["next"] else { break };
        path = format!("/sessions?limit=1&after={next}");
    }
    assert_eq!(ids, ["talk", "copy"]);
    server.stop().await;
}
