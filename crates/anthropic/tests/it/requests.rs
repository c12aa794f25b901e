//! Request bodies.

use std::sync::Arc;

use expect_test::{Expect, expect};
use haft_core::{
    Message, Schema, ToolCall, ToolName, ToolOutput, ToolResult,
    content::{Content, ResourceBody},
    message::{AssistantMessage, MessageBody},
    model::{ChatModel as _, ChatRequest, ChatSettings, ResponseFormat, ToolChoice},
    toolset::ToolList,
};
use serde_json::{Value, json};

use crate::server::{Server, decode_for, header, hello, message, ok_reply, pretty, sent, tool, tools};

/// Checks the body for `request`.
async fn check(request: ChatRequest, expect: Expect) {
    expect.assert_eq(&pretty(&sent("claude-opus-5-5", |it| it.prompt_cache(false), &request).await));
}

fn schema(value: Value) -> ResponseFormat {
    ResponseFormat::JsonSchema { name: ToolName::new("reply").unwrap(), schema: Schema::new(value).unwrap() }
}

#[tokio::test]
async fn headers_and_settings_are_sent() {
    let reply = ok_reply(&message(json!([{"type": "text", "text": "Hi"}]), "end_turn"));
    let server = Server::with_replies([reply.clone(), reply]).await;
    let settings = ChatSettings {
        temperature: Some(1.5),
        top_p: Some(0.5),
        max_tokens: Some(100),
        stop: vec!["END".to_owned(), "\n".to_owned()],
        seed: Some(1),
        ..ChatSettings::default()
    };
    let request = ChatRequest {
        instructions: Some(Message::system("Be brief.").into()),
        settings,
        ..ChatRequest::new([Message::system("You are Ada."), Message::user("Hello")])
    };
    let model = server.builder("claude-sonnet-4-6").extra_field("service_tier", "auto").effort("low");
    model.build().unwrap().chat(&request).await.unwrap();
    let bearer = server.builder("claude-sonnet-4-6").bearer_token("token").build().unwrap();
    bearer.chat(&hello()).await.unwrap();
    let [first, second] = server.take_requests().try_into().ok().unwrap();
    assert!(first.head.starts_with("POST /v1/messages HTTP/1.1"));
    let headers = ["x-api-key", "anthropic-version", "anthropic-beta", "authorization"];
    let of = |head: &str| headers.map(|name| header(head, name).unwrap_or("-").to_owned()).join(" ");
    assert_eq!(of(&first.head), "sk-ant-secret 2023-06-01 - -");
    assert_eq!(of(&second.head), "- 2023-06-01 - Bearer token");
    expect![[r#"
        {
          "model": "claude-sonnet-4-6",
          "max_tokens": 100,
          "system": [
            {
              "type": "text",
              "text": "Be brief."
            },
            {
              "type": "text",
              "text": "You are Ada.",
              "cache_control": {
                "type": "ephemeral"
              }
            }
          ],
          "messages": [
            {
              "role": "user",
              "content": [
                {
                  "type": "text",
                  "text": "Hello",
                  "cache_control": {
                    "type": "ephemeral"
                  }
                }
              ]
            }
          ],
          "output_config": {
            "effort": "low"
          },
          "temperature": 1.0,
          "stop_sequences": [
            "END"
          ],
          "stream": false,
          "service_tier": "auto"
        }"#]]
    .assert_eq(&pretty(&first.body));
}

/// Images and documents are sent as blocks, and media that the API rejects as text.
#[tokio::test]
async fn media_are_sent() {
    let link = |uri: &str, media_type: &str| Content::ResourceLink {
        uri: uri.to_owned(),
        name: "report".to_owned(),
        description: None,
        media_type: Some(media_type.to_owned()),
    };
    let resource = |media_type: &str, body| Content::Resource {
        uri: "note".to_owned(),
        media_type: Some(media_type.to_owned()),
        body,
    };
    let content = vec![
        Content::text("Look:"),
        Content::text(" "),
        Content::from_bytes(*b"\x89PNG", "image/png"),
        Content::from_bytes(*b"<svg/>", "image/svg+xml"),
        link("https://example.com/a.png", "image/*"),
        link("https://example.com/a.pdf", "application/pdf"),
        link("https://example.com/a.html", "text/html"),
        Content::from_bytes(*b"%PDF", "application/pdf"),
        resource("application/pdf", ResourceBody::Blob(b"%PDF".as_slice().into())),
        resource("text/markdown", ResourceBody::Text("# A".to_owned())),
        Content::from_bytes(*b"RIFF", "audio/wav"),
    ];
    check(
        ChatRequest::new([Message::new(MessageBody::User { content })]),
        expect![[r##"
        {
          "model": "claude-opus-5-5",
          "max_tokens": 32000,
          "messages": [
            {
              "role": "user",
              "content": [
                {
                  "type": "text",
                  "text": "Look:"
                },
                {
                  "type": "image",
                  "source": {
                    "type": "base64",
                    "media_type": "image/png",
                    "data": "iVBORw=="
                  }
                },
                {
                  "type": "text",
                  "text": "[image/svg+xml, 6 bytes]"
                },
                {
                  "type": "image",
                  "source": {
                    "type": "url",
                    "url": "https://example.com/a.png"
                  }
                },
                {
                  "type": "document",
                  "source": {
                    "type": "url",
                    "url": "https://example.com/a.pdf"
                  },
                  "title": "report"
                },
                {
                  "type": "text",
                  "text": "[report](https://example.com/a.html)"
                },
                {
                  "type": "document",
                  "source": {
                    "type": "base64",
                    "media_type": "application/pdf",
                    "data": "JVBERg=="
                  }
                },
                {
                  "type": "document",
                  "source": {
                    "type": "base64",
                    "media_type": "application/pdf",
                    "data": "JVBERg=="
                  },
                  "title": "note"
                },
                {
                  "type": "document",
                  "source": {
                    "type": "text",
                    "media_type": "text/plain",
                    "data": "# A"
                  },
                  "title": "note"
                },
                {
                  "type": "text",
                  "text": "[audio/wav, 4 bytes]"
                }
              ]
            }
          ],
          "stream": false
        }"##]],
    )
    .await;
    let request =
        ChatRequest::new([Message::user(resource("text/plain", ResourceBody::Text("a".to_owned())))]);
    let body = sent("claude-opus-5-5", |it| it.citations(true), &request).await;
    assert_eq!(body["messages"][0]["content"][0]["citations"], json!({"enabled": true}));
}

/// A conversation of another model: its reasoning and its call ids are not those of the API. Results
/// precede other content, and a later system message is a user message.
#[tokio::test]
async fn conversation_of_another_model_is_sent() {
    let reply = AssistantMessage {
        reasoning: Some("I add.".to_owned()),
        tool_calls: vec![
            ToolCall::new("functions.add:0", "add", r#"{"x": 1.50}"#),
            ToolCall::new("b", "my.tool", "broken"),
        ],
        ..AssistantMessage::default()
    };
    let image = Content::from_bytes(*b"\x89PNG", "image/png");
    let output = ToolOutput { content: vec![Content::text("a"), image], ..ToolOutput::default() };
    let failed = ToolResult::failed("b", "my.tool", &haft_core::ToolError::failed("no luck"));
    let messages = [
        Message::user("Add."),
        Message::assistant(reply),
        Message::system("Be quick."),
        Message::tool(ToolResult::done("functions.add:0", "add", output.with_warning("rounded"))),
        Message::tool(failed),
        Message::user("And?"),
        Message::assistant(AssistantMessage {
            reasoning: Some("…".to_owned()),
            ..AssistantMessage::default()
        }),
        Message::user("Well?"),
        Message::assistant("It is 3. \n"),
    ];
    let body = sent("claude-opus-5-5", |it| it.prompt_cache(false), &ChatRequest::new(messages)).await;
    let id = body["messages"][1]["content"][0]["id"].as_str().unwrap();
    assert!(id.starts_with("call_"));
    let text = pretty(&json!([body["messages"], body["tools"], body["tool_choice"]])).replace(id, "ID");
    expect![[r#"
        [
          [
            {
              "role": "user",
              "content": [
                {
                  "type": "text",
                  "text": "Add."
                }
              ]
            },
            {
              "role": "assistant",
              "content": [
                {
                  "type": "tool_use",
                  "id": "ID",
                  "name": "add",
                  "input": {
                    "x": 1.5
                  }
                },
                {
                  "type": "tool_use",
                  "id": "b",
                  "name": "my_tool_bca2c3613c44",
                  "input": {
                    "malformed_arguments": "broken"
                  }
                }
              ]
            },
            {
              "role": "user",
              "content": [
                {
                  "type": "tool_result",
                  "tool_use_id": "ID",
                  "content": [
                    {
                      "type": "text",
                      "text": "a"
                    },
                    {
                      "type": "image",
                      "source": {
                        "type": "base64",
                        "media_type": "image/png",
                        "data": "iVBORw=="
                      }
                    },
                    {
                      "type": "text",
                      "text": "Warning: rounded"
                    }
                  ]
                },
                {
                  "type": "tool_result",
                  "tool_use_id": "b",
                  "content": "no luck",
                  "is_error": true
                },
                {
                  "type": "text",
                  "text": "System: Be quick."
                },
                {
                  "type": "text",
                  "text": "And?"
                },
                {
                  "type": "text",
                  "text": "Well?"
                }
              ]
            },
            {
              "role": "assistant",
              "content": [
                {
                  "type": "text",
                  "text": "It is 3."
                }
              ]
            }
          ],
          [
            {
              "name": "add",
              "input_schema": {
                "type": "object",
                "properties": {}
              }
            },
            {
              "name": "my_tool_bca2c3613c44",
              "input_schema": {
                "type": "object",
                "properties": {}
              }
            }
          ],
          {
            "type": "none"
          }
        ]"#]]
    .assert_eq(&text);
}

#[tokio::test]
async fn tools_and_choices_are_sent() {
    let choice = async |tool_choice: ToolChoice, parallel: Option<bool>| {
        let settings = ChatSettings { parallel_tool_calls: parallel, ..ChatSettings::default() };
        let request = ChatRequest { tool_choice, settings, ..hello().with_tools(tools(["add".to_owned()])) };
        sent("claude-opus-5-5", |it| it, &request).await["tool_choice"].to_string()
    };
    let name = ToolName::new("add").unwrap();
    let choices = [
        choice(ToolChoice::Auto, None).await,
        choice(ToolChoice::Auto, Some(true)).await,
        choice(ToolChoice::Auto, Some(false)).await,
        choice(ToolChoice::None, Some(false)).await,
        choice(ToolChoice::Required, None).await,
        choice(ToolChoice::Tool(name), Some(false)).await,
    ];
    expect![[r#"
        null
        null
        {"type":"auto","disable_parallel_tool_use":true}
        {"type":"none"}
        {"type":"any"}
        {"type":"tool","name":"add","disable_parallel_tool_use":true}"#]]
    .assert_eq(&choices.join("\n"));
    check(
        hello().with_tools(tools(["add".to_owned()])),
        expect![[r#"
        {
          "model": "claude-opus-5-5",
          "max_tokens": 32000,
          "messages": [
            {
              "role": "user",
              "content": [
                {
                  "type": "text",
                  "text": "Hello"
                }
              ]
            }
          ],
          "tools": [
            {
              "name": "add",
              "input_schema": {
                "type": "object",
                "properties": {
                  "x": {
                    "type": "integer"
                  }
                },
                "required": [
                  "x"
                ]
              },
              "description": "A tool."
            }
          ],
          "stream": false
        }"#]],
    )
    .await;
}

/// Tools with a compatible schema are strict, up to the limits of the API.
#[tokio::test]
async fn strict_tools_are_limited() {
    let optional = json!({"properties": (0..20).map(|n| (format!("p{n}"), json!({"type": "string"}))).collect::<serde_json::Map<_, _>>()});
    let list = ToolList::new(
        "test",
        vec![
            tool("map", json!({"additionalProperties": {"type": "string"}})),
            tool("a", optional.clone()),
            tool("b", optional),
            tool("c", json!({"properties": {"x": {"type": "integer", "minimum": 1}}, "required": ["x"]})),
        ],
    );
    let body = sent("claude-opus-5-5", |it| it.strict_tools(true), &hello().with_tools(list)).await;
    let strict: Vec<_> = body["tools"].as_array().unwrap().iter().map(|it| it["strict"].clone()).collect();
    assert_eq!(json!(strict), json!([null, true, null, true]));
    assert_eq!(
        body["tools"][3]["input_schema"],
        json!({"type": "object", "properties": {"x": {"description": "minimum: 1", "type": "integer"}}, "required": ["x"], "additionalProperties": false})
    );
    let many = tools((0..25).map(|number| format!("t{number}")));
    let body = sent("claude-opus-5-5", |it| it.strict_tools(true), &hello().with_tools(many)).await;
    let strict = body["tools"].as_array().unwrap().iter().filter(|it| it["strict"] == true).count();
    assert_eq!(strict, 20);
}

/// With many tools, those after the first five are deferred, except the one that must be called.
#[tokio::test]
async fn many_tools_are_deferred() {
    let list = tools((0..41).map(|number| format!("t{number}")));
    let deferred = |body: &Value| -> Vec<_> {
        let tools = body["tools"].as_array().unwrap().iter().enumerate();
        tools.filter(|(_, it)| it["defer_loading"] == true).map(|(place, _)| place).collect()
    };
    let request = hello().with_tools(list.clone());
    let body = sent("claude-opus-5-5", |it| it, &request).await;
    assert_eq!(deferred(&body), (5..41).collect::<Vec<_>>());
    expect![[r#"
        [
          {
            "name": "t40",
            "input_schema": {
              "type": "object",
              "properties": {
                "x": {
                  "type": "integer"
                }
              },
              "required": [
                "x"
              ]
            },
            "description": "A tool.",
            "defer_loading": true
          },
          {
            "type": "tool_search_tool_bm25_20251119",
            "name": "tool_search_tool_bm25",
            "cache_control": {
              "type": "ephemeral"
            }
          }
        ]"#]]
    .assert_eq(&pretty(&body["tools"].as_array().unwrap()[40..]));
    let forced =
        ChatRequest { tool_choice: ToolChoice::Tool(ToolName::new("t7").unwrap()), ..request.clone() };
    let forced = sent("claude-opus-5-5", |it| it, &forced).await;
    assert_eq!(deferred(&forced), (5..41).filter(|place| *place != 7).collect::<Vec<_>>());
    for (model, threshold, count) in [
        ("claude-opus-5-5", 41, 0),
        ("claude-opus-4-1", 40, 0),
        ("claude-haiku-4-5", 40, 36),
        ("claude-opus-5-5", 1, 36),
    ] {
        let body = sent(model, |it| it.tool_search_threshold(threshold), &request).await;
        assert_eq!(deferred(&body).len(), count, "{model} {threshold}");
    }
    let few = sent(
        "claude-opus-5-5",
        |it| it.tool_search_threshold(1),
        &hello().with_tools(tools((0..5).map(|n| format!("t{n}")))),
    )
    .await;
    assert_eq!((deferred(&few).len(), few["tools"].as_array().unwrap().len()), (0, 5));
}

/// A response schema is sent as the format, and one that the API does not accept as an instruction.
#[tokio::test]
async fn response_formats_are_sent() {
    let with = |response_format| ChatRequest { response_format, ..hello() };
    let object = json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "required": ["a"]});
    let formats = [
        ("claude-opus-5-5", with(schema(object.clone()))),
        ("claude-opus-5-5", with(schema(json!({"type": "array", "items": {"type": "integer"}})))),
        (
            "claude-opus-5-5",
            with(schema(json!({"type": "object", "additionalProperties": {"type": "integer"}}))),
        ),
        ("claude-sonnet-4-0", with(schema(object))),
        ("claude-opus-5-5", with(ResponseFormat::JsonObject)),
    ];
    let mut lines = Vec::new();
    for (model, request) in formats {
        let reply = ok_reply(&message(json!([{"type": "text", "text": "{\"value\":{}}"}]), "end_turn"));
        let server = Server::with_replies([reply]).await;
        server.builder(model).build().unwrap().chat(&request).await.unwrap();
        let body = server.take_requests().remove(0).body;
        lines.push(format!("{model}: {} {}", body["output_config"], body["system"]));
    }
    expect![[r#"
        claude-opus-5-5: {"format":{"type":"json_schema","schema":{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}},"required":["a"],"additionalProperties":false}}} null
        claude-opus-5-5: {"format":{"type":"json_schema","schema":{"type":"object","properties":{"value":{"type":"array","items":{"type":"integer"}}},"required":["value"],"additionalProperties":false}}} null
        claude-opus-5-5: null [{"type":"text","text":"Reply with one JSON value that is valid for this JSON Schema, and no other text:\n{\"type\":\"object\",\"additionalProperties\":{\"type\":\"integer\"}}","cache_control":{"type":"ephemeral"}}]
        claude-sonnet-4-0: null [{"type":"text","text":"Reply with one JSON value that is valid for this JSON Schema, and no other text:\n{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"string\"}},\"required\":[\"a\"]}","cache_control":{"type":"ephemeral"}}]
        claude-opus-5-5: null [{"type":"text","text":"Reply with one JSON object and no other text.","cache_control":{"type":"ephemeral"}}]"#]].assert_eq(&lines.join("\n"));
}

/// A wrapped reply is unwrapped, whole and streamed.
#[tokio::test]
async fn structured_reply_is_unwrapped() {
    let list = schema(json!({"type": "array", "items": {"type": "integer"}}));
    let request = ChatRequest { response_format: list, ..hello() };
    let body = message(json!([{"type": "text", "text": "{\"value\": [1, 2]}"}]), "end_turn");
    assert_eq!(decode_for(&body, &request).await.unwrap().0.message.text(), "[1, 2]");
}

/// The bytes of a step are those of the step before, followed by new ones.
#[tokio::test]
async fn requests_are_stable() {
    let reply = ok_reply(&message(json!([{"type": "text", "text": "Hi"}]), "end_turn"));
    let server = Server::with_replies([reply.clone(), reply]).await;
    let (model, first) = (server.model(), Arc::new(Message::user("Hello")));
    let request = ChatRequest { messages: [first.clone()].into_iter().collect(), ..hello() };
    let response = model.chat(&request).await.unwrap();
    let second = [first, Arc::new(Message::assistant(response.message)), Arc::new(Message::user("Go on."))];
    model.chat(&ChatRequest { messages: second.into_iter().collect(), ..hello() }).await.unwrap();
    let bodies: Vec<_> = server.take_requests().iter().map(|it| it.body["messages"].to_string()).collect();
    assert!(bodies[1].starts_with(bodies[0].trim_end_matches(']')), "{bodies:?}");
}

#[tokio::test]
async fn tokens_are_counted() {
    let server = Server::with_replies([ok_reply(&json!({"input_tokens": 42}))]).await;
    let settings = ChatSettings { temperature: Some(0.5), max_tokens: Some(10), ..ChatSettings::default() };
    let request = ChatRequest { settings, ..hello().with_tools(tools(["add".to_owned()])) };
    let model = server.builder("claude-sonnet-4-5").extra_field("service_tier", "auto").build().unwrap();
    assert_eq!(model.count_tokens(&request).await.unwrap(), 42);
    let request = server.take_requests().remove(0);
    assert!(request.head.starts_with("POST /v1/messages/count_tokens HTTP/1.1"));
    let fields: Vec<_> = request.body.as_object().unwrap().keys().cloned().collect();
    assert_eq!(fields, ["model", "messages", "tools"]);
}
