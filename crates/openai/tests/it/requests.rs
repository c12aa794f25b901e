//! Tests of the request bodies for the Chat Completions API.

use expect_test::{Expect, expect};
use futures::TryStreamExt as _;
use haft_core::{
    ChatModel, Message, Schema, ToolCall, ToolDefinition, ToolName, ToolOutput, ToolResult,
    content::Content,
    message::AssistantMessage,
    model::{ChatRequest, ChatSettings, ModelProfile, ResponseFormat, ToolChoice},
    tool::DynamicTool,
    toolset::ToolList,
};
use serde_json::{Value, json};

use haft_openai::{BuildError, ChatCompletions, HttpBuildError, Provider, Responses};

use crate::server::{Server, hello, ok_reply, reply, stream_reply};

fn tools() -> ToolList {
    let definition = ToolDefinition::new(ToolName::new("now").unwrap(), Schema::object());
    ToolList::new("test", [DynamicTool::new(definition, |_, _| async { "noon" })])
}

async fn check_request_body(request: ChatRequest, expect: Expect) {
    let server =
        Server::with_replies([ok_reply(&json!({"choices": [{"message": {"content": "Hi"}}]}))]).await;
    let profile = ModelProfile { supports_images: true, ..ModelProfile::new("test-model") };
    server.builder().profile(profile).build().unwrap().chat(&request).await.unwrap();
    let body = server.take_requests().remove(0).body;
    expect.assert_eq(&serde_json::to_string_pretty(&body).unwrap());
}

#[tokio::test]
async fn minimal_request_has_model_and_messages() {
    check_request_body(
        ChatRequest::new([Message::user("Hello")]),
        expect![[r#"
            {
              "model": "test-model",
              "messages": [
                {
                  "role": "user",
                  "content": "Hello"
                }
              ],
              "stream": false
            }"#]],
    )
    .await;
}

/// The results of parallel calls are sent in the order of the calls, with the provider's call ids.
#[tokio::test]
async fn results_of_parallel_calls_are_in_order() {
    let calls = vec![ToolCall::new("id-1", "draw", r#"{"of":"a cat"}"#), ToolCall::new("id-2", "now", "")];
    let picture = ToolOutput {
        content: vec![Content::text("done"), Content::from_bytes(*b"cat", "image/png")],
        ..ToolOutput::default()
    };
    let request = ChatRequest::new([
        Message::user("Draw, and tell the time."),
        Message::assistant(AssistantMessage { tool_calls: calls, ..AssistantMessage::default() }),
        Message::tool(ToolResult::done("id-1", "draw", picture)),
        Message::tool(ToolResult::done("id-2", "now", "noon".into())),
    ]);
    check_request_body(
        request,
        expect![[r#"
            {
              "model": "test-model",
              "messages": [
                {
                  "role": "user",
                  "content": "Draw, and tell the time."
                },
                {
                  "role": "assistant",
                  "content": null,
                  "tool_calls": [
                    {
                      "id": "id-1",
                      "type": "function",
                      "function": {
                        "name": "draw",
                        "arguments": "{\"of\":\"a cat\"}"
                      }
                    },
                    {
                      "id": "id-2",
                      "type": "function",
                      "function": {
                        "name": "now",
                        "arguments": "{}"
                      }
                    }
                  ]
                },
                {
                  "role": "tool",
                  "tool_call_id": "id-1",
                  "content": "done\n[image/png, 3 bytes]"
                },
                {
                  "role": "tool",
                  "tool_call_id": "id-2",
                  "content": "noon"
                },
                {
                  "role": "user",
                  "content": [
                    {
                      "type": "text",
                      "text": "What draw returned for call id-1:"
                    },
                    {
                      "type": "image_url",
                      "image_url": {
                        "url": "data:image/png;base64,Y2F0"
                      }
                    }
                  ]
                }
              ],
              "tools": [
                {
                  "type": "function",
                  "function": {
                    "name": "draw",
                    "description": "Not available any more.",
                    "parameters": {
                      "type": "object",
                      "properties": {}
                    }
                  }
                },
                {
                  "type": "function",
                  "function": {
                    "name": "now",
                    "description": "Not available any more.",
                    "parameters": {
                      "type": "object",
                      "properties": {}
                    }
                  }
                }
              ],
              "tool_choice": "none",
              "stream": false
            }"#]],
    )
    .await;
}

#[tokio::test]
async fn all_settings_are_sent() {
    let schema = Schema::new(json!({"type": "object", "properties": {"x": {"type": "integer"}}})).unwrap();
    let request = ChatRequest {
        instructions: Some(Message::system("Be brief.").into()),
        tool_choice: ToolChoice::Tool(ToolName::new("now").unwrap()),
        response_format: ResponseFormat::JsonSchema { name: ToolName::new("answer").unwrap(), schema },
        settings: ChatSettings {
            temperature: Some(0.5),
            top_p: Some(0.9),
            max_tokens: Some(100),
            stop: vec!["END".into()],
            seed: Some(7),
            parallel_tool_calls: Some(false),
        },
        ..ChatRequest::new([Message::user("Hello")]).with_tools(tools())
    };
    check_request_body(
        request,
        expect![[r#"
        {
          "model": "test-model",
          "messages": [
            {
              "role": "system",
              "content": "Be brief."
            },
            {
              "role": "user",
              "content": "Hello"
            }
          ],
          "tools": [
            {
              "type": "function",
              "function": {
                "name": "now",
                "parameters": {
                  "type": "object",
                  "properties": {}
                }
              }
            }
          ],
          "tool_choice": {
            "type": "function",
            "function": {
              "name": "now"
            }
          },
          "parallel_tool_calls": false,
          "response_format": {
            "type": "json_schema",
            "json_schema": {
              "name": "answer",
              "schema": {
                "type": "object",
                "properties": {
                  "x": {
                    "type": "integer"
                  }
                }
              }
            }
          },
          "temperature": 0.5,
          "top_p": 0.9,
          "max_tokens": 100,
          "stop": [
            "END"
          ],
          "seed": 7,
          "stream": false
        }"#]],
    )
    .await;
}

/// `tool_choice` and `parallel_tool_calls` are omitted from a request without tools, because
/// servers reject both fields without `tools`.
#[tokio::test]
async fn tool_fields_are_omitted_without_tools() {
    let request = ChatRequest {
        tool_choice: ToolChoice::None,
        settings: ChatSettings { parallel_tool_calls: Some(true), ..ChatSettings::default() },
        ..ChatRequest::new([Message::user("Hello")])
    };
    check_request_body(
        request,
        expect![[r#"
        {
          "model": "test-model",
          "messages": [
            {
              "role": "user",
              "content": "Hello"
            }
          ],
          "stream": false
        }"#]],
    )
    .await;
}

/// Newer OpenAI models require `max_completion_tokens`, and DeepSeek requires `reasoning_content`.
/// Without a known provider, each field is sent only if the matching option of the builder is set.
#[tokio::test]
async fn provider_specific_fields_are_sent_by_option() {
    let thought = AssistantMessage {
        reasoning: Some("I need the time.".into()),
        tool_calls: vec![ToolCall::new("a", "now", "{}")],
        ..AssistantMessage::default()
    };
    let answer = AssistantMessage { reasoning: Some("Easy.".into()), ..AssistantMessage::from("Noon.") };
    let request = ChatRequest {
        settings: ChatSettings { max_tokens: Some(100), ..ChatSettings::default() },
        ..ChatRequest::new([
            Message::user("What time is it?"),
            Message::assistant(thought),
            Message::tool(ToolResult::done("a", "now", "noon".into())),
            Message::assistant(answer),
            Message::user("Thanks"),
        ])
    };
    let minimal_reply = ok_reply(&json!({"choices": [{"message": {"content": "Hi"}}]}));
    let server = Server::with_replies([minimal_reply.clone(), minimal_reply]).await;
    let builder = server.builder().use_max_completion_tokens(true).send_reasoning(true);
    builder.build().unwrap().chat(&request).await.unwrap();
    server.model().chat(&request).await.unwrap();
    let requests = server.take_requests();
    let [with, without] = requests.as_slice() else { panic!("{} requests", requests.len()) };
    let keys = |body: &Value| {
        let messages = body["messages"].as_array().unwrap();
        let reasoning: Vec<_> = messages.iter().map(|it| it["reasoning_content"].clone()).collect();
        (body["max_tokens"].clone(), body["max_completion_tokens"].clone(), json!(reasoning))
    };
    let beside_calls_only = json!([null, "I need the time.", null, null, null]);
    assert_eq!(keys(&with.body), (Value::Null, json!(100), beside_calls_only));
    assert_eq!(keys(&without.body), (json!(100), Value::Null, json!([null, null, null, null, null])));
}

/// Mistral's error for `stream_options` is recognized. Later requests omit this parameter.
#[tokio::test]
async fn rejected_stream_options_are_omitted_from_then_on() {
    let detail = json!({"type": "extra_forbidden", "loc": ["body", "stream_options"], "msg": "Extra inputs are not permitted"});
    let rejection = reply("422 Unprocessable Entity", "", &json!({"detail": [detail]}).to_string());
    let minimal_reply =
        stream_reply(&[json!({"choices": [{"delta": {"content": "Hi"}, "finish_reason": "stop"}]})]);
    let server = Server::with_replies([rejection, minimal_reply.clone(), minimal_reply]).await;
    let model = server.builder().max_retries(0).build().unwrap();
    for _ in 0..2 {
        let events: Vec<_> = model.stream(&hello()).try_collect().await.unwrap();
        assert_eq!(events.len(), 2);
    }
    let sent: Vec<_> = server.take_requests().iter().map(|it| it.body["stream_options"].clone()).collect();
    assert_eq!(sent, [json!({"include_usage": true}), Value::Null, Value::Null]);
}

/// The error of newer OpenAI models for `max_tokens`, which gateways forward unchanged, is
/// recognized. Later requests contain `max_completion_tokens` instead.
#[tokio::test]
async fn rejected_max_tokens_is_replaced_from_then_on() {
    let message = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.";
    let rejection = reply("400 Bad Request", "", &json!({"error": {"message": message}}).to_string());
    let minimal_reply = ok_reply(&json!({"choices": [{"message": {"content": "Hi"}}]}));
    let server = Server::with_replies([rejection, minimal_reply.clone(), minimal_reply]).await;
    let model = server.builder().max_retries(0).build().unwrap();
    let settings = ChatSettings { max_tokens: Some(9), ..ChatSettings::default() };
    let request = ChatRequest { settings, ..hello() };
    for _ in 0..2 {
        model.chat(&request).await.unwrap();
    }
    let limits = server.take_requests().into_iter().map(|request| {
        let body = request.body;
        (body["max_tokens"].clone(), body["max_completion_tokens"].clone())
    });
    let newer = (Value::Null, json!(9));
    assert_eq!(limits.collect::<Vec<_>>(), [(json!(9), Value::Null), newer.clone(), newer]);
}

#[tokio::test]
async fn extra_body_rejects_every_field_of_a_request() {
    let settings = ChatSettings {
        temperature: Some(0.5),
        top_p: Some(0.5),
        max_tokens: Some(9),
        stop: vec!["x".to_owned()],
        seed: Some(7),
        parallel_tool_calls: Some(false),
    };
    let request = ChatRequest {
        instructions: Some(Message::system("Be brief.").into()),
        tools: tools(),
        tool_choice: ToolChoice::Required,
        response_format: ResponseFormat::JsonObject,
        settings,
        ..hello()
    };
    let server = Server::with_replies(vec![
        stream_reply(&[
            json!({"choices": [{"delta": {"content": "Hi"}, "finish_reason": "stop"}]})
        ]);
        3
    ])
    .await;
    let chat = server.builder().reasoning_effort("low");
    let newer = server.builder().use_max_completion_tokens(true).provider(Provider::Mistral);
    let items = server.responses().reasoning_effort("low").use_previous_response_id(true);
    let models: [Box<dyn ChatModel>; 3] =
        [Box::new(chat.build().unwrap()), Box::new(newer.build().unwrap()), Box::new(items.build().unwrap())];
    for model in models {
        // The error is ignored: the reply is not valid for the Responses API, but this test checks
        // only the request.
        let _ = model.stream(&request).try_collect::<Vec<_>>().await;
    }
    let own = |built: Result<(), BuildError>, name: &str| {
        assert!(
            matches!(&built, Err(BuildError::Http(HttpBuildError::ReservedField { name: it })) if it == name),
            "{name}: {built:?}"
        );
    };
    for (number, sent) in server.take_requests().into_iter().enumerate() {
        for name in sent.body.as_object().unwrap().keys() {
            if number < 2 {
                own(ChatCompletions::builder("m").extra_field(name, 1).build().map(drop), name);
            } else {
                own(Responses::builder("m").extra_field(name, 1).build().map(drop), name);
            }
        }
    }
    let other =
        ChatCompletions::builder("m").base_url("http://localhost:1/v1").extra_field("top_k", 1).build();
    assert!(other.is_ok());
}
