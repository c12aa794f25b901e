//! Whole and streamed replies: stop reasons, usage, citations.

use expect_test::{Expect, expect};
use haft_core::{
    message::ProviderData,
    model::{ChatEvent, FinishReason, ModelError},
};
use serde_json::{Value, json};

use crate::server::{decode, message, pretty};

/// Returns `data` without the address of the server.
fn without_origin(data: &ProviderData) -> Value {
    let mut data = json!(data);
    assert!(data["anthropic"].as_object_mut().unwrap().remove("from").is_some());
    data
}

async fn check(body: &Value, expect: Expect) {
    let (reply, _) = decode(body).await.unwrap();
    let text = pretty(&reply);
    expect.assert_eq(&text);
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

#[tokio::test]
async fn text_and_calls_are_decoded() {
    let call = |id: &str, input: Value| json!({"type": "tool_use", "id": id, "name": "add", "input": input});
    let blocks = json!([text("I add."), call("t1", json!({"x": 1})), call("t2", json!({}))]);
    check(
        &message(blocks, "tool_use"),
        expect![[r#"
        {
          "message": {
            "content": [
              {
                "type": "text",
                "text": "I add."
              }
            ],
            "tool_calls": [
              {
                "id": "t1",
                "name": "add",
                "arguments": "{\"x\":1}"
              },
              {
                "id": "t2",
                "name": "add",
                "arguments": "{}"
              }
            ]
          },
          "finish_reason": "tool_calls",
          "usage": {
            "requests": 1,
            "input_tokens": 60,
            "output_tokens": 5,
            "cached_input_tokens": 30,
            "cache_write_tokens": 20,
            "reasoning_tokens": 0
          },
          "id": "msg_1",
          "model": "claude-opus-5-5-x"
        }"#]],
    )
    .await;
}

/// Cached and written tokens are input tokens. Thinking and hosted calls are counted.
#[tokio::test]
async fn usage_is_summed() {
    let mut body = message(json!([text("Hi")]), "end_turn");
    body["usage"]["output_tokens_details"] = json!({"thinking_tokens": 3});
    body["usage"]["server_tool_use"] = json!({"web_search_requests": 2, "web_fetch_requests": 1});
    let usage = decode(&body).await.unwrap().0.usage;
    let tokens =
        (usage.input_tokens, usage.cached_input_tokens, usage.cache_write_tokens, usage.output_tokens);
    assert_eq!((tokens, usage.reasoning_tokens, usage.hosted_tool_requests), ((60, 30, 20, 5), 3, 3));
    body["usage"] = Value::Null;
    assert!(!decode(&body).await.unwrap().0.usage.is_reported());
}

#[tokio::test]
async fn stop_reasons_are_converted() {
    let mut reasons = Vec::new();
    for reason in ["end_turn", "stop_sequence", "max_tokens", "model_context_window_exceeded", "later_reason"]
    {
        reasons.push(decode(&message(json!([text("Hi")]), reason)).await.unwrap().0.finish_reason);
    }
    assert_eq!(
        reasons,
        [
            FinishReason::Stop,
            FinishReason::Stop,
            FinishReason::Length,
            FinishReason::Length,
            FinishReason::Other("later_reason".to_owned()),
        ]
    );
}

/// A refusal has the explanation of the API, or else the text.
#[tokio::test]
async fn refusal_has_an_explanation() {
    let mut body = message(json!([text("I can")]), "refusal");
    let (reply, _) = decode(&body).await.unwrap();
    assert_eq!(
        (reply.message.refusal.as_deref(), &reply.finish_reason),
        (Some("I can"), &FinishReason::Stop)
    );
    body["stop_details"] =
        json!({"type": "refusal", "category": "bio", "explanation": "It may be dangerous."});
    let (reply, _) = decode(&body).await.unwrap();
    assert_eq!(reply.message.refusal.as_deref(), Some("It may be dangerous."));
    let empty = decode(&message(json!([]), "refusal")).await.unwrap().0;
    assert_eq!(empty.message.refusal.as_deref(), Some("The model declined to answer."));
}

#[tokio::test]
async fn empty_reply_is_an_error() {
    let error = decode(&message(json!([]), "end_turn")).await.unwrap_err();
    assert!(matches!(error, ModelError::EmptyResponse));
}

/// A call that a limit has cut never runs.
#[tokio::test]
async fn call_cut_by_a_limit_is_an_error() {
    for input in [json!({}), json!({"x": 1})] {
        let call = json!({"type": "tool_use", "id": "t1", "name": "add", "input": input});
        let body = message(json!([text("I add."), call]), "max_tokens");
        let server = crate::server::Server::with_replies([crate::server::ok_reply(&body)]).await;
        let model = server.builder("claude-opus-5-5").max_retries(0).build().unwrap();
        let error = haft_core::ChatModel::chat(&model, &crate::server::hello()).await.unwrap_err();
        assert!(matches!(error, ModelError::Truncated { .. }), "{error}");
    }
}

/// Citations have the range of their text. Texts with other blocks between them are separated.
#[tokio::test]
async fn citations_have_ranges() {
    let page = json!({"type": "web_search_result_location", "url": "https://a.example", "title": "A", "encrypted_index": "e", "cited_text": "quoted"});
    let chars = json!({"type": "char_location", "document_index": 0, "document_title": "D", "start_char_index": 0, "end_char_index": 1, "cited_text": "q", "file_id": "f"});
    let blocks = json!([
        text("Grüße: "),
        {"type": "text", "text": "die Sonne", "citations": [page, chars]},
        {"type": "text", "text": " scheint.", "citations": null},
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "sun"}},
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
        text("Now."),
    ]);
    let (reply, _) = decode(&message(blocks, "end_turn")).await.unwrap();
    let all = reply.message.text();
    assert_eq!(all, "Grüße: die Sonne scheint.\n\nNow.");
    for citation in &reply.message.citations {
        assert_eq!(&all[citation.range.clone().unwrap()], "die Sonne");
    }
    expect![[r#"
        [
          {
            "range": {
              "start": 9,
              "end": 18
            },
            "title": "A",
            "url": "https://a.example",
            "quote": "quoted"
          },
          {
            "range": {
              "start": 9,
              "end": 18
            },
            "title": "D",
            "file_id": "f",
            "quote": "q"
          }
        ]"#]]
    .assert_eq(&pretty(&reply.message.citations));
    expect![[r#"
        {
          "anthropic": {
            "blocks": [
              {
                "type": "text",
                "length": 9
              },
              {
                "type": "text",
                "citations": [
                  {
                    "type": "web_search_result_location",
                    "url": "https://a.example",
                    "title": "A",
                    "encrypted_index": "e",
                    "cited_text": "quoted"
                  },
                  {
                    "type": "char_location",
                    "document_index": 0,
                    "document_title": "D",
                    "start_char_index": 0,
                    "end_char_index": 1,
                    "cited_text": "q"
                  }
                ],
                "length": 9
              },
              {
                "type": "text",
                "length": 9
              },
              {
                "type": "server_tool_use",
                "id": "s1",
                "name": "web_search",
                "input": {
                  "query": "sun"
                }
              },
              {
                "type": "web_search_tool_result",
                "tool_use_id": "s1",
                "content": []
              },
              {
                "type": "text",
                "length": 4
              }
            ]
          }
        }"#]]
    .assert_eq(&pretty(&without_origin(&reply.message.provider_data)));
}

/// The events of a hosted call are sent in the order of the blocks.
#[tokio::test]
async fn hosted_calls_have_events() {
    let blocks = json!([
        {"type": "server_tool_use", "id": "s1", "name": "bash_code_execution", "input": {"command": "ls"}},
        {"type": "bash_code_execution_tool_result", "tool_use_id": "s1", "content": {"type": "bash_code_execution_result", "stdout": "a", "stderr": "", "return_code": 0, "content": []}},
        {"type": "server_tool_use", "id": "s2", "name": "web_search", "input": {"query": "x"}},
        {"type": "web_search_tool_result", "tool_use_id": "s2", "content": {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}},
        {"type": "mcp_tool_use", "id": "m1", "name": "echo", "server_name": "srv", "input": {"a": 1}},
        {"type": "mcp_tool_result", "tool_use_id": "m1", "is_error": true, "content": [{"type": "text", "text": "no luck"}]},
        text("Done."),
    ]);
    let (reply, events) = decode(&message(blocks, "end_turn")).await.unwrap();
    expect![[r#"
        [
          {
            "id": "s1",
            "tool": "code_execution",
            "input": {
              "command": "ls"
            },
            "output": {
              "type": "bash_code_execution_result",
              "stdout": "a",
              "stderr": "",
              "return_code": 0,
              "content": []
            }
          },
          {
            "id": "s2",
            "tool": "web_search",
            "input": {
              "query": "x"
            },
            "output": {
              "type": "web_search_tool_result_error",
              "error_code": "max_uses_exceeded"
            },
            "error": "max_uses_exceeded"
          },
          {
            "id": "m1",
            "tool": "mcp:srv/echo",
            "input": {
              "a": 1
            },
            "output": [
              {
                "type": "text",
                "text": "no luck"
              }
            ],
            "error": "no luck"
          }
        ]"#]]
    .assert_eq(&pretty(&reply.message.hosted_calls));
    let hosted = events.iter().filter_map(|event| match event {
        ChatEvent::HostedCallStarted { id, tool } => Some(format!("{id} {tool}")),
        ChatEvent::HostedCallFinished { call } => Some(format!("{} finished", call.id)),
        ChatEvent::TextDelta { text } => Some(text.clone()),
        _ => None,
    });
    expect![[r#"
        s1 code_execution
        s1 finished
        s2 web_search
        s2 finished
        m1 mcp:srv/echo
        m1 finished
        Do
        ne."#]]
    .assert_eq(&hosted.collect::<Vec<_>>().join("\n"));
}

#[tokio::test]
async fn body_without_a_message_is_an_error() {
    for (body, expected) in [
        (json!({"hello": 1}), "the model's reply cannot be read"),
        (
            json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
            "(status 529)",
        ),
        (json!({"error": {"message": "too many tokens", "type": "rate_limit_error"}}), "limiting requests"),
    ] {
        let server = crate::server::Server::with_replies([crate::server::ok_reply(&body)]).await;
        let model = server.builder("claude-opus-5-5").max_retries(0).build().unwrap();
        let error =
            haft_core::ChatModel::chat(&model, &crate::server::hello()).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
