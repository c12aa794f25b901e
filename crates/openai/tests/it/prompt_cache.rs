//! OpenAI's prompt cache: keys and breakpoints.

use std::time::Duration;

use expect_test::expect;
use haft_core::{
    ChatModel, Message, ToolCall, ToolOutput, ToolResult, message::AssistantMessage, model::ChatRequest,
};
use haft_openai::{BuildError, ChatCompletions, HttpBuildError, ModelBuilder, Provider, Responses};
use serde_json::{Value, json};

use crate::{
    responses::sample_response,
    server::{Server, ok_reply, reply},
};

fn request() -> ChatRequest {
    let call = AssistantMessage {
        tool_calls: vec![ToolCall::new("call_1", "add", r#"{"x":1}"#)],
        ..AssistantMessage::default()
    };
    let messages = [
        Message::user("Add."),
        Message::assistant(call),
        Message::tool(ToolResult::done("call_1", "add", ToolOutput::from("42"))),
    ];
    ChatRequest { instructions: Some(Message::system("Be brief.").into()), ..ChatRequest::new(messages) }
}

fn at<M>(builder: ModelBuilder<M>, server: &Server, provider: Provider) -> ModelBuilder<M> {
    builder.provider(provider).base_url(&server.base_url).first_retry_wait(Duration::from_millis(1))
}

fn chat_reply() -> Vec<u8> {
    ok_reply(&json!({"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}))
}

async fn chat_body(
    model: &str,
    provider: Provider,
    set: impl FnOnce(ModelBuilder<ChatCompletions>) -> ModelBuilder<ChatCompletions>,
) -> Value {
    let server = Server::with_replies([chat_reply()]).await;
    let model = set(at(ChatCompletions::builder(model), &server, provider)).build().unwrap();
    model.chat(&request()).await.unwrap();
    server.body(0)
}

async fn responses_body(
    model: &str,
    set: impl FnOnce(ModelBuilder<Responses>) -> ModelBuilder<Responses>,
) -> Value {
    let server = Server::with_replies([ok_reply(&sample_response())]).await;
    let model = set(at(Responses::builder(model), &server, Provider::OpenAi)).build().unwrap();
    model.chat(&request()).await.unwrap();
    server.body(0)
}

#[tokio::test]
async fn messages_end_with_breakpoints() {
    let mut body = chat_body("gpt-5.6", Provider::OpenAi, |builder| builder).await;
    assert!(body["prompt_cache_key"].take().as_str().unwrap().starts_with("haft-"));
    expect![[r#"
        [
          {
            "role": "system",
            "content": [
              {
                "type": "text",
                "text": "Be brief.",
                "prompt_cache_breakpoint": {
                  "mode": "explicit"
                }
              }
            ]
          },
          {
            "role": "user",
            "content": [
              {
                "type": "text",
                "text": "Add.",
                "prompt_cache_breakpoint": {
                  "mode": "explicit"
                }
              }
            ]
          },
          {
            "role": "assistant",
            "content": null,
            "tool_calls": [
              {
                "id": "call_1",
                "type": "function",
                "function": {
                  "name": "add",
                  "arguments": "{\"x\":1}"
                }
              }
            ]
          },
          {
            "role": "tool",
            "tool_call_id": "call_1",
            "content": [
              {
                "type": "text",
                "text": "42"
              }
            ]
          }
        ]"#]]
    .assert_eq(&format!("{:#}", body["messages"]));
    let body =
        responses_body("gpt-5.6", |builder| builder.prompt_cache_ttl(Duration::from_secs(43_200))).await;
    expect![[r#"
        [
          {
            "role": "system",
            "content": [
              {
                "type": "input_text",
                "text": "Be brief.",
                "prompt_cache_breakpoint": {
                  "mode": "explicit",
                  "ttl": "12h"
                }
              }
            ]
          },
          {
            "role": "user",
            "content": [
              {
                "type": "input_text",
                "text": "Add.",
                "prompt_cache_breakpoint": {
                  "mode": "explicit",
                  "ttl": "12h"
                }
              }
            ]
          },
          {
            "type": "function_call",
            "call_id": "call_1",
            "name": "add",
            "arguments": "{\"x\":1}"
          },
          {
            "type": "function_call_output",
            "call_id": "call_1",
            "output": [
              {
                "type": "input_text",
                "text": "42"
              }
            ]
          }
        ]"#]]
    .assert_eq(&format!("{:#}", body["input"]));
    assert_eq!(body.get("instructions"), None);
}

/// Models before GPT-5.6 find the cached prefix by themselves, and other providers do not know the
/// fields.
#[tokio::test]
async fn other_models_and_providers_get_no_breakpoints() {
    let has = |body: &Value, text: &str| body.to_string().contains(text);
    for (model, provider, has_key) in [
        ("gpt-5.5", Provider::OpenAi, true),
        ("gpt-4.1", Provider::Azure, true),
        ("gpt-5.6", Provider::OpenRouter, false),
        ("gpt-5.6", Provider::Vllm, false),
    ] {
        let body = chat_body(model, provider, |builder| builder).await;
        assert!(!has(&body, "prompt_cache_breakpoint"), "{body:#}");
        assert_eq!(has(&body, "prompt_cache_key"), has_key, "{body:#}");
    }
    let body = chat_body("gpt-5.6", Provider::OpenAi, |builder| builder.prompt_cache(false)).await;
    assert!(!has(&body, "prompt_cache"), "{body:#}");
    let body = responses_body("gpt-5.6", |builder| builder.use_previous_response_id(true)).await;
    assert_eq!(body["instructions"], "Be brief.");
}

#[tokio::test]
async fn key_is_that_of_the_conversation() {
    let server = Server::with_replies([(); 4].map(|()| chat_reply())).await;
    let model = at(ChatCompletions::builder("gpt-5"), &server, Provider::OpenAi).build().unwrap();
    let (first, mut second) = (request(), request());
    second.messages = first.messages.iter().cloned().chain([Message::user("And now?").into()]).collect();
    let other = ChatRequest::new([Message::user("Subtract.")]);
    for request in [&first, &second, &other] {
        model.chat(request).await.unwrap();
    }
    let keys = [0, 1, 2].map(|index| server.body(index)["prompt_cache_key"].clone());
    assert_eq!(keys[0], keys[1]);
    assert_ne!(keys[0], keys[2]);
    let own = chat_body("gpt-5", Provider::OpenAi, |builder| builder.prompt_cache_key("mine")).await;
    assert_eq!(own["prompt_cache_key"], "mine");
}

#[tokio::test]
async fn rejected_breakpoints_are_omitted_from_then_on() {
    let error = json!({"error": {
        "message": "Unknown parameter: 'messages[0].content[0].prompt_cache_breakpoint'.",
        "param": "messages[0].content[0].prompt_cache_breakpoint",
    }});
    let rejection = reply("400 Bad Request", "", &error.to_string());
    let server = Server::with_replies([rejection, chat_reply(), chat_reply()]).await;
    let model = at(ChatCompletions::builder("gpt-5.6"), &server, Provider::Azure).build().unwrap();
    model.chat(&request()).await.unwrap();
    model.chat(&request()).await.unwrap();
    let has = |index| server.body(index).to_string().contains("prompt_cache_breakpoint");
    assert_eq!([0, 1, 2].map(has), [true, false, false]);
}

#[test]
fn other_lifetime_is_rejected() {
    let error = Responses::builder("gpt-5.6").prompt_cache_ttl(Duration::from_secs(60)).build().unwrap_err();
    assert!(matches!(error, BuildError::Http(HttpBuildError::InvalidSetting { .. })));
    assert_eq!(error.to_string(), "the setting prompt_cache_ttl cannot be 60s: use 30 minutes or 12 hours");
}

#[tokio::test]
async fn written_tokens_are_counted() {
    let usage = json!({
        "prompt_tokens": 2600, "completion_tokens": 3, "total_tokens": 2603,
        "prompt_tokens_details": {"cached_tokens": 2000, "cache_write_tokens": 400},
    });
    let body = json!({
        "choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}], "usage": usage,
    });
    let server = Server::with_replies([ok_reply(&body)]).await;
    let usage = server.builder().build().unwrap().chat(&request()).await.unwrap().usage;
    assert_eq!((usage.input_tokens, usage.cached_input_tokens, usage.cache_write_tokens), (2600, 2000, 400));
}
