//! Tests of `POST /chat`.

use expect_test::expect;
use haft_testing::ScriptedModel;
use serde_json::{Value, json};

use crate::{TestServer, events, send, store_file};

fn question(text: &str, fields: &Value) -> Value {
    let mut body = fields.clone();
    body["messages"] = json!([{"role": "user", "content": text}]);
    body
}

#[tokio::test]
async fn answer_has_calls_and_results() {
    let model =
        ScriptedModel::new().reply_calls([("1", "add", r#"{"x":17,"y":25}"#)]).reply_text("It is 42.");
    let server = TestServer::start(&model, None).await;
    let body = question("17 + 25?", &json!({"use_tools": true, "available_tools": ["add"]}));
    let (status, mut answer) = send(server.post("/chat", &body)).await;
    assert_eq!(status, 200);
    assert_eq!(answer["agent_steps"].take().as_array().unwrap().len(), 1);
    answer["usage"].take();
    expect![[r#"
        {
          "status": "finished",
          "text": "It is 42.",
          "pending": [],
          "agent_steps": null,
          "usage": null,
          "tools_used": [
            "add"
          ],
          "tool_calls": [
            {
              "id": "1",
              "name": "add",
              "arguments": {
                "x": 17,
                "y": 25
              }
            }
          ],
          "tool_results": [
            {
              "success": true,
              "result": "42",
              "error": null,
              "warning": null,
              "call_id": "1",
              "name": "add"
            }
          ]
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&answer).unwrap());
    let offered: Vec<_> = model.requests()[0].tools.names().map(ToString::to_string).collect();
    assert_eq!(offered, ["add"]);
    server.stop().await;
}

#[tokio::test]
async fn tools_are_off_by_default() {
    let model = ScriptedModel::new().reply_text("Hello.");
    let server = TestServer::start(&model, None).await;
    assert_eq!(send(server.post("/chat", &question("Hi.", &json!({})))).await.0, 200);
    assert!(model.requests()[0].tools.is_empty());
    for (body, expected) in [
        (question("Hi.", &json!({"use_tools": true, "available_tools": ["x"]})), "Tool 'x' not found"),
        (question("Hi.", &json!({"use_memory": true})), "`use_memory` needs a `session_id`"),
        (json!({"messages": []}), "invalid body: /messages: expected at least 1 item"),
        (json!({"messages": [{"role": "assistant", "content": ""}]}), "`messages` must end with"),
        (json!({"messages": [{"role": "tool", "content": ""}]}), "invalid body: /messages/0/role: "),
        (json!({"message": "Hi."}), "invalid body: /: "),
        (json!([[{"role": "user", "content": "Hi."}]]), "invalid body: /: expected object, received array"),
        (
            json!({"messages": [["user", "Hi."]]}),
            "invalid body: /messages/0: expected object, received array",
        ),
    ] {
        let (status, error) = send(server.post("/chat", &body)).await;
        assert_eq!(status, 422, "{error}");
        assert!(error["detail"].as_str().unwrap().starts_with(expected), "{error}");
    }
    let (status, error) = send(server.post("/chat", &question("Hi.", &json!({"session_id": "a"})))).await;
    assert_eq!((status.as_u16(), error), (404, json!({"detail": "this server stores no conversations"})));
    server.stop().await;
}

/// The next question knows the first, also after a restart of the server.
#[tokio::test]
async fn conversation_survives_a_restart() {
    let (_folder, path) = store_file();
    let model = ScriptedModel::new().reply_text("Hello, Ada.").reply_text("Ada.").reply_text("Who?");
    let server = TestServer::start(&model, Some(&path)).await;
    let talk = json!({"session_id": "talk", "use_memory": true});
    let (status, answer) = send(server.post("/chat", &question("I am Ada.", &talk))).await;
    assert_eq!((status.as_u16(), &answer["text"]), (200, &json!("Hello, Ada.")), "{answer}");
    server.stop().await;

    let server = TestServer::start(&model, Some(&path)).await;
    let (_, answer) = send(server.post("/chat", &question("Who am I?", &talk))).await;
    assert_eq!(answer["text"], "Ada.");
    let texts: Vec<_> = model.requests()[1].messages.iter().map(|message| message.text()).collect();
    assert_eq!(texts, ["I am Ada.", "Hello, Ada.", "Who am I?"]);
    // Without memory, the conversation is stored and not sent.
    let (_, answer) =
        send(server.post("/chat", &question("Who am I?", &json!({"session_id": "talk"})))).await;
    assert_eq!(answer["text"], "Who?");
    assert_eq!(model.requests()[2].messages.len(), 1);
    let (_, messages) = send(server.get("/sessions/talk/messages")).await;
    assert_eq!(messages["count"], 6);
    server.stop().await;
}

/// BEHAVIOUR: the tool results of earlier turns are a section of the next turn's context.
#[tokio::test]
async fn earlier_results_are_a_section() {
    let (_folder, path) = store_file();
    let model = ScriptedModel::new()
        .reply_calls([("call_1", "add", r#"{"x":1,"y":2}"#)])
        .reply_text("It is 3.")
        .reply_text("3 again.");
    let server = TestServer::start(&model, Some(&path)).await;
    let talk = json!({"session_id": "talk", "use_memory": true, "use_tools": true});
    assert_eq!(send(server.post("/chat", &question("1 + 2?", &talk))).await.0, 200);
    assert_eq!(send(server.post("/chat", &question("Again?", &talk))).await.0, 200);
    let request = &model.requests()[2];
    let texts: Vec<_> = request.messages.iter().map(|message| message.text()).collect();
    assert_eq!(texts, ["1 + 2?", "It is 3.", "Again?"]);
    let instructions = request.instructions.as_ref().unwrap().text();
    assert!(instructions.starts_with("## Tool Execution Results\n"), "{instructions}");
    assert!(instructions.contains("- call id: call_1") && instructions.ends_with("- result: 3"));
    server.stop().await;
}

/// Two questions at the same time have an answer each.
#[tokio::test]
async fn each_question_has_its_own_answer() {
    let (_folder, path) = store_file();
    let model = ScriptedModel::new().reply_text("One.").reply_text("Two.").reply_text("Three.");
    let server = TestServer::start(&model, Some(&path)).await;
    let talk = json!({"session_id": "talk", "use_memory": true});
    let ask = |text| send(server.post("/chat", &question(text, &talk)));
    let (a, b, c) = tokio::join!(ask("A?"), ask("B?"), ask("C?"));
    let mut answers = [a.1["text"].clone(), b.1["text"].clone(), c.1["text"].clone()];
    answers.sort_by_key(ToString::to_string);
    assert_eq!(answers, [json!("One."), json!("Three."), json!("Two.")]);
    let (_, runs) = send(server.get("/sessions/talk/runs")).await;
    assert_eq!(runs["count"], 3);
    server.stop().await;
}

#[tokio::test]
async fn answer_is_streamed() {
    let (_folder, path) = store_file();
    let model = ScriptedModel::new().reply_text("Hello.").reply_text("Hello again.");
    let server = TestServer::start(&model, Some(&path)).await;
    for (fields, expected) in
        [(json!({"stream": true}), "Hello."), (json!({"stream": true, "session_id": "talk"}), "Hello again.")]
    {
        let response = server.post("/chat", &question("Hi.", &fields)).send().await.unwrap();
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let events = events(response).await;
        let text: String = events.iter().filter_map(|(_, event)| event["text"].as_str()).take(1).collect();
        assert_eq!(text, expected, "{events:?}");
        let (_, last) = events.last().unwrap();
        assert_eq!((last["type"].as_str(), last["text"].as_str()), (Some("done"), Some(expected)));
    }
    server.stop().await;
}
