//! What is sent.

use expect_test::{Expect, expect};
use haft_core::{
    AssistantMessage, ChatModel as _, ChatRequest, ChatSettings, Content, DynamicTool, Message, ModelProfile,
    ResponseFormat, Schema, ToolCall, ToolChoice, ToolDefinition, ToolList, ToolName, ToolOutput, ToolResult,
    json,
};

use crate::server::{Server, ok};

fn tools() -> ToolList {
    let definition = ToolDefinition::new(ToolName::new("now").unwrap(), Schema::object());
    ToolList::new("test", [DynamicTool::new(definition, |_, _| async { "noon" })])
}

async fn check(request: ChatRequest, expect: Expect) {
    let server = Server::replying([ok(&json!({"choices": [{"message": {"content": "Hi"}}]}))]).await;
    let profile = ModelProfile { images: true, ..ModelProfile::new("test-model") };
    server.builder().profile(profile).build().unwrap().chat(&request).await.unwrap();
    let body = server.take_requests().remove(0).body;
    expect.assert_eq(&serde_json::to_string_pretty(&body).unwrap());
}

#[tokio::test]
async fn the_least_request() {
    check(
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

/// BEHAVIOUR C29: the provider's ids are kept, and two parallel calls are answered in their order, before anything else.
#[tokio::test]
async fn two_calls_are_answered_in_order() {
    let calls = vec![ToolCall::new("id-1", "draw", r#"{"of":"a cat"}"#), ToolCall::new("id-2", "now", "")];
    let picture = ToolOutput {
        content: vec![Content::text("done"), Content::blob(*b"cat", "image/png")],
        ..ToolOutput::default()
    };
    let request = ChatRequest::new([
        Message::user("Draw, and tell the time."),
        Message::assistant(AssistantMessage { tool_calls: calls, ..AssistantMessage::default() }),
        Message::tool(ToolResult::done("id-1", "draw", picture)),
        Message::tool(ToolResult::done("id-2", "now", "noon".into())),
    ]);
    check(
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
              "stream": false
            }"#]],
    )
    .await;
}

#[tokio::test]
async fn every_option() {
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
    check(
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

/// Servers refuse what belongs to tools where there are none.
#[tokio::test]
async fn without_tools_nothing_is_said_of_them() {
    let request = ChatRequest {
        tool_choice: ToolChoice::None,
        settings: ChatSettings { parallel_tool_calls: Some(true), ..ChatSettings::default() },
        ..ChatRequest::new([Message::user("Hello")])
    };
    check(
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
