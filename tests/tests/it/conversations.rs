//! Tests of an agent with an HTTP model of the Chat Completions API.

use expect_test::{Expect, expect};
use haft_core::{RunInput, Toolset};
use haft_openai::ChatCompletions;
use haft_react::{JsonReact, ReactAgent};
use haft_testing::model_server::{ModelServer, Reply};
use serde_json::Value;

use crate::Add;

fn model(server: &ModelServer) -> ChatCompletions {
    ChatCompletions::builder("scripted").base_url(server.base_url()).build().unwrap()
}

fn agent(server: &ModelServer) -> ReactAgent {
    ReactAgent::new(model(server), Toolset::new().with_tool(Add)).unwrap()
}

/// Compares the messages in a model request, without the system message, with the snapshot
/// `expected`.
#[expect(clippy::needless_pass_by_value, reason = "`expect!` returns a value")]
fn check_messages(request: &Value, expected: Expect) {
    let messages = request["messages"].as_array().unwrap();
    let conversation = messages.iter().filter(|message| message["role"] != "system");
    let lines: String = conversation.map(|message| format!("{message:#}\n")).collect();
    expected.assert_eq(&lines);
}

/// The next model request contains the results of parallel calls, in the order of the calls and
/// with their ids.
#[tokio::test(flavor = "multi_thread")]
async fn parallel_calls_are_answered_in_order_in_the_next_request() {
    let calls = vec![("call_a", "add", r#"{"x":17,"y":25}"#), ("call_b", "add", r#"{"x":1,"y":2}"#)];
    let server = ModelServer::start([Reply::calls(calls), Reply::text("42 and 3.")]).unwrap();
    let output = agent(&server).run("Add 17 and 25, and 1 and 2.").await.unwrap();
    assert_eq!(output.text().unwrap(), "42 and 3.");
    assert_eq!(output.answer().unwrap().usage.total_tokens(), 30);

    let requests = server.requests();
    assert_eq!(requests[0]["tools"][0]["function"]["name"], "add");
    check_messages(
        &requests[1],
        expect![[r#"
            {
              "role": "user",
              "content": "Add 17 and 25, and 1 and 2."
            }
            {
              "role": "assistant",
              "content": null,
              "tool_calls": [
                {
                  "id": "call_a",
                  "type": "function",
                  "function": {
                    "name": "add",
                    "arguments": "{\"x\":17,\"y\":25}"
                  }
                },
                {
                  "id": "call_b",
                  "type": "function",
                  "function": {
                    "name": "add",
                    "arguments": "{\"x\":1,\"y\":2}"
                  }
                }
              ]
            }
            {
              "role": "tool",
              "tool_call_id": "call_a",
              "content": "42"
            }
            {
              "role": "tool",
              "tool_call_id": "call_b",
              "content": "3"
            }
        "#]],
    );
}

/// Missing and duplicate call ids are replaced with unique ids.
#[tokio::test(flavor = "multi_thread")]
async fn missing_and_duplicate_ids_are_replaced() {
    let calls = vec![
        ("same", "add", r#"{"x":1,"y":1}"#),
        ("same", "add", r#"{"x":2,"y":2}"#),
        ("", "add", r#"{"x":3,"y":3}"#),
    ];
    let server = ModelServer::start([Reply::calls(calls), Reply::text("2, 4 and 6.")]).unwrap();
    agent(&server).run("Add.").await.unwrap();

    let requests = server.requests();
    let messages = requests[1]["messages"].as_array().unwrap();
    let called: Vec<_> =
        messages[1]["tool_calls"].as_array().unwrap().iter().map(|call| &call["id"]).collect();
    let answered: Vec<_> = messages[2..].iter().map(|message| &message["tool_call_id"]).collect();
    assert_eq!(called, answered);
    assert_eq!(called[0], "same");
    assert!(called[1] != called[0] && called[2] != called[1] && called[2] != "", "{called:?}");
    let sums: Vec<_> = messages[2..].iter().map(|message| message["content"].as_str()).collect();
    assert_eq!(sums, [Some("2"), Some("4"), Some("6")]);
}

/// After a follow-up question, the model request contains the messages and calls of the first run.
#[tokio::test(flavor = "multi_thread")]
async fn follow_up_question_continues_the_conversation() {
    let calls = vec![("call_a", "add", r#"{"x":17,"y":25}"#)];
    let server =
        ModelServer::start([Reply::calls(calls), Reply::text("It is 42."), Reply::text("Yes, even.")])
            .unwrap();
    let agent = agent(&server);
    let first = agent.run("What is 17 plus 25?").await.unwrap().into_answer().unwrap();
    let second = agent.run(RunInput::new("Is that even?").with_history(first.transcript)).await.unwrap();
    assert_eq!(second.text().unwrap(), "Yes, even.");
    assert_eq!(second.answer().unwrap().usage.requests, 1, "the usage of the first run is not counted again");
    check_messages(
        &server.requests()[2],
        expect![[r#"
            {
              "role": "user",
              "content": "What is 17 plus 25?"
            }
            {
              "role": "assistant",
              "content": null,
              "tool_calls": [
                {
                  "id": "call_a",
                  "type": "function",
                  "function": {
                    "name": "add",
                    "arguments": "{\"x\":17,\"y\":25}"
                  }
                }
              ]
            }
            {
              "role": "tool",
              "tool_call_id": "call_a",
              "content": "42"
            }
            {
              "role": "assistant",
              "content": "It is 42."
            }
            {
              "role": "user",
              "content": "Is that even?"
            }
        "#]],
    );
}

/// In the JSON dialect, the model request must contain a response schema and no functions.
#[tokio::test(flavor = "multi_thread")]
async fn model_without_function_calls_is_constrained_to_json() {
    let server = ModelServer::start([
        Reply::text(r#"{"thought":"I add.","tool_name":"add","tool_args":{"x":17,"y":25}}"#),
        Reply::text(r#"{"thought":"I know.","tool_name":"finish","tool_args":{"answer":"It is 42."}}"#),
    ])
    .unwrap();
    let agent = ReactAgent::builder(model(&server))
        .tools(Toolset::new().with_tool(Add))
        .dialect(JsonReact::new())
        .build()
        .unwrap();
    let output = agent.run("What is 17 plus 25?").await.unwrap();
    assert_eq!(output.text().unwrap(), "It is 42.");

    let requests = server.requests();
    assert!(requests[0]["tools"].is_null());
    assert_eq!(requests[0]["response_format"]["type"], "json_schema");
    check_messages(
        &requests[1],
        expect![[r#"
            {
              "role": "user",
              "content": "What is 17 plus 25?"
            }
            {
              "role": "assistant",
              "content": "{\"thought\":\"I add.\",\"tool_name\":\"add\",\"tool_args\":{\"x\":17,\"y\":25}}"
            }
            {
              "role": "user",
              "content": "Observation from add: 42"
            }
        "#]],
    );
}
