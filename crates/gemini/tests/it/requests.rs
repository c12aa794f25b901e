//! Snapshots of request bodies of `generateContent`.

use std::sync::Arc;

use expect_test::{Expect, expect};
use haft_core::{
    ChatModel, Message, Schema, ToolName, ToolOutput, ToolResult,
    content::Content,
    model::{ChatRequest, ChatSettings, ResponseFormat, ToolChoice},
    toolset::ToolList,
};
use haft_gemini::{Api, GeminiBuilder, HarmBlockThreshold, HarmCategory, SafetySetting, ThinkingLevel};
use serde_json::json;

use crate::server::{Server, body_of, header, hello, minimal_reply, tool, tools};

async fn check(
    request: &ChatRequest,
    configure: impl FnOnce(GeminiBuilder) -> GeminiBuilder,
    expect: Expect,
) {
    let body = body_of(Api::GenerateContent, request, configure).await;
    expect.assert_eq(&serde_json::to_string_pretty(&body).unwrap());
}

#[tokio::test]
async fn request_has_instructions_settings_and_tools() {
    let request = ChatRequest {
        instructions: Some(Message::system("Be brief.").into()),
        tool_choice: ToolChoice::Tool(ToolName::new("3d_ping").unwrap()),
        settings: ChatSettings {
            temperature: Some(0.5),
            top_p: Some(0.9),
            max_tokens: Some(100),
            stop: vec!["END".to_owned()],
            seed: Some((1 << 31) + 7),
            parallel_tool_calls: Some(false),
        },
        ..hello().with_tools(tools())
    };
    let configure = |builder: GeminiBuilder| {
        builder
            .thinking_level(ThinkingLevel::Low)
            .include_thoughts(true)
            .extra_field("labels", json!({"team": "a"}))
            .safety_settings([SafetySetting {
                category: HarmCategory::Harassment,
                threshold: HarmBlockThreshold::BlockOnlyHigh,
            }])
    };
    check(
        &request,
        configure,
        expect![[r#"
        {
          "systemInstruction": {
            "parts": [
              {
                "text": "Be brief."
              }
            ]
          },
          "contents": [
            {
              "role": "user",
              "parts": [
                {
                  "text": "Hello"
                }
              ]
            }
          ],
          "tools": [
            {
              "functionDeclarations": [
                {
                  "name": "add",
                  "parametersJsonSchema": {
                    "type": "object",
                    "properties": {
                      "x": {
                        "type": "integer"
                      },
                      "y": {
                        "type": "integer"
                      }
                    },
                    "required": [
                      "x",
                      "y"
                    ]
                  },
                  "description": "Runs add."
                },
                {
                  "name": "_.3d_ping",
                  "description": "Runs 3d_ping."
                }
              ]
            }
          ],
          "toolConfig": {
            "functionCallingConfig": {
              "mode": "ANY",
              "allowedFunctionNames": [
                "_.3d_ping"
              ]
            }
          },
          "safetySettings": [
            {
              "category": "HARM_CATEGORY_HARASSMENT",
              "threshold": "BLOCK_ONLY_HIGH"
            }
          ],
          "generationConfig": {
            "temperature": 0.5,
            "topP": 0.9,
            "maxOutputTokens": 100,
            "stopSequences": [
              "END"
            ],
            "seed": 7,
            "thinkingConfig": {
              "thinkingLevel": "LOW",
              "includeThoughts": true
            }
          },
          "labels": {
            "team": "a"
          }
        }"#]],
    )
    .await;
}

#[tokio::test]
async fn tool_choice_selects_the_mode() {
    let mode = async |choice, validates| {
        let request = ChatRequest { tool_choice: choice, ..hello().with_tools(tools()) };
        let body = body_of(Api::GenerateContent, &request, |builder| builder.validate_calls(validates)).await;
        body["toolConfig"]["functionCallingConfig"]["mode"].as_str().map(str::to_owned)
    };
    assert_eq!(mode(ToolChoice::Auto, false).await, None);
    assert_eq!(mode(ToolChoice::Auto, true).await.as_deref(), Some("VALIDATED"));
    assert_eq!(mode(ToolChoice::None, true).await.as_deref(), Some("NONE"));
    assert_eq!(mode(ToolChoice::Required, false).await.as_deref(), Some("ANY"));
    let without_tools = ChatRequest { tool_choice: ToolChoice::None, ..hello() };
    assert!(
        body_of(Api::GenerateContent, &without_tools, |builder| builder).await.get("toolConfig").is_none()
    );
}

/// No text is between a tool result and the call, and results are in the order of the calls.
#[tokio::test]
async fn adjacent_messages_with_one_role_are_one_content() {
    let calls = [("b", "add", r#"{"x":1,"y":2}"#), ("a", "3d_ping", "")];
    let reply = haft_core::message::AssistantMessage {
        content: vec!["I add.".into()],
        tool_calls: calls.map(Into::into).into(),
        ..Default::default()
    };
    let request = ChatRequest::new([
        Message::user("One"),
        Message::user("Two"),
        Message::system("Later."),
        Message::assistant(reply),
        Message::tool(ToolResult::done("a", "3d_ping", ToolOutput::from("pong"))),
        Message::tool(ToolResult::done("b", "add", ToolOutput::structured(json!({"sum": 3})))),
        Message::assistant("It is 3."),
        Message::user("Thanks"),
    ]);
    check(
        &request,
        |builder| builder,
        expect![[r#"
        {
          "contents": [
            {
              "role": "user",
              "parts": [
                {
                  "text": "One"
                },
                {
                  "text": "Two"
                },
                {
                  "text": "System: Later."
                }
              ]
            },
            {
              "role": "model",
              "parts": [
                {
                  "text": "I add."
                },
                {
                  "functionCall": {
                    "id": "b",
                    "name": "add",
                    "args": {
                      "x": 1,
                      "y": 2
                    }
                  }
                },
                {
                  "functionCall": {
                    "id": "a",
                    "name": "_.3d_ping",
                    "args": {}
                  }
                }
              ]
            },
            {
              "role": "user",
              "parts": [
                {
                  "functionResponse": {
                    "name": "add",
                    "response": {
                      "output": {
                        "sum": 3
                      }
                    },
                    "id": "b"
                  }
                },
                {
                  "functionResponse": {
                    "name": "_.3d_ping",
                    "response": {
                      "output": "pong"
                    },
                    "id": "a"
                  }
                }
              ]
            },
            {
              "role": "model",
              "parts": [
                {
                  "text": "It is 3."
                }
              ]
            },
            {
              "role": "user",
              "parts": [
                {
                  "text": "Thanks"
                }
              ]
            }
          ]
        }"#]],
    )
    .await;
}

#[tokio::test]
async fn media_are_sent_as_data_or_described() {
    let link = |uri: &str, media_type: &str| Content::ResourceLink {
        uri: uri.to_owned(),
        name: "file".to_owned(),
        description: None,
        media_type: Some(media_type.to_owned()),
    };
    let content = vec![
        Content::text("Look:"),
        Content::from_bytes(*b"\x89PNG", "image/png"),
        Content::from_bytes(*b"<svg/>", "image/svg+xml"),
        Content::from_bytes(*b"RIFF", "audio/x-wav"),
        Content::from_bytes(*b"%PDF", "application/pdf"),
        link("gs://bucket/video.mp4", "image/png"),
        link("https://generativelanguage.googleapis.com/v1beta/files/abc", "application/pdf"),
        link("https://example.org/cat.png", "image/png"),
    ];
    let request = ChatRequest::new([Message::new(haft_core::message::MessageBody::User { content })]);
    check(
        &request,
        |builder| builder,
        expect![[r#"
        {
          "contents": [
            {
              "role": "user",
              "parts": [
                {
                  "text": "Look:"
                },
                {
                  "inlineData": {
                    "mimeType": "image/png",
                    "data": "iVBORw=="
                  }
                },
                {
                  "text": "[image/svg+xml, 6 bytes]"
                },
                {
                  "inlineData": {
                    "mimeType": "audio/wav",
                    "data": "UklGRg=="
                  }
                },
                {
                  "inlineData": {
                    "mimeType": "application/pdf",
                    "data": "JVBERg=="
                  }
                },
                {
                  "fileData": {
                    "mimeType": "image/png",
                    "fileUri": "gs://bucket/video.mp4"
                  }
                },
                {
                  "fileData": {
                    "mimeType": "application/pdf",
                    "fileUri": "https://generativelanguage.googleapis.com/v1beta/files/abc"
                  }
                },
                {
                  "text": "[file](https://example.org/cat.png)"
                }
              ]
            }
          ]
        }"#]],
    )
    .await;
}

/// Gemini 3 accepts media in results. Other models get a description.
#[tokio::test]
async fn media_in_results_depend_on_the_model() {
    let output = ToolOutput {
        content: vec!["A cat:".into(), Content::from_bytes(*b"\x89PNG", "image/png")],
        ..ToolOutput::default()
    };
    let reply = haft_core::message::AssistantMessage {
        tool_calls: vec![("a", "draw", "{}").into()],
        ..Default::default()
    };
    let messages = [
        Message::user("Draw."),
        Message::assistant(reply),
        Message::tool(ToolResult::done("a", "draw", output)),
    ];
    let request = ChatRequest::new(messages);
    let server =
        Server::with_replies([minimal_reply(Api::GenerateContent), minimal_reply(Api::GenerateContent)])
            .await;
    for name in ["gemini-3-flash", "gemini-2.5-flash"] {
        server.named(Api::GenerateContent, name).build().unwrap().chat(&request).await.unwrap();
    }
    let results: Vec<_> =
        server.take_requests().iter().map(|it| it.body["contents"][2].to_string()).collect();
    expect![[r#"
        {"role":"user","parts":[{"functionResponse":{"name":"draw","response":{"output":"A cat:\n[image/png, 4 bytes]"},"id":"a","parts":[{"inlineData":{"mimeType":"image/png","data":"iVBORw=="}}]}}]}
        {"role":"user","parts":[{"functionResponse":{"name":"draw","response":{"output":"A cat:\n[image/png, 4 bytes]"},"id":"a"}}]}"#]].assert_eq(&results.join("\n"));
}

#[tokio::test]
async fn response_formats_are_sent() {
    let schema = json!({
        "type": "array",
        "items": {"$ref": "#/$defs/item", "description": "An item."},
        "$defs": {"item": {"type": ["string", "null"]}},
    });
    let format = ResponseFormat::JsonSchema {
        name: ToolName::new("items").unwrap(),
        schema: Schema::new(schema).unwrap(),
    };
    let request = |response_format| ChatRequest { response_format, ..hello() };
    let json_object = body_of(Api::GenerateContent, &request(ResponseFormat::JsonObject), |it| it).await;
    assert_eq!(json_object["generationConfig"], json!({"responseMimeType": "application/json"}));
    let body = body_of(Api::GenerateContent, &request(format), |it| it).await;
    expect![[r##"{"responseMimeType":"application/json","responseJsonSchema":{"type":"array","items":{"description":"An item.","anyOf":[{"$ref":"#/$defs/item"}]},"$defs":{"item":{"type":["string","null"]}}}}"##]].assert_eq(&body["generationConfig"].to_string());
}

/// A later step of a conversation begins with the same bytes, and the messages and tools are encoded
/// only once.
#[tokio::test]
async fn requests_are_stable_from_step_to_step() {
    for api in [Api::GenerateContent, Api::Interactions] {
        let server = Server::with_replies([minimal_reply(api), minimal_reply(api)]).await;
        let model = server.builder(api).build().unwrap();
        let reply = haft_core::message::AssistantMessage {
            tool_calls: vec![("a", "add", r#"{"x":1,"y":2}"#).into()],
            ..Default::default()
        };
        let mut messages = vec![Arc::new(Message::user("Add 1 and 2")), Arc::new(Message::assistant(reply))];
        messages.push(Arc::new(Message::tool(ToolResult::done("a", "add", ToolOutput::from("3")))));
        let request = |messages: &[Arc<Message>]| {
            let mut request = ChatRequest::new([]).with_tools(tools());
            request.messages = messages.iter().cloned().collect();
            request
        };
        model.chat(&request(&messages)).await.unwrap();
        messages.push(Arc::new(Message::assistant("It is 3.")));
        model.chat(&request(&messages)).await.unwrap();
        let [first, second] = server.take_requests().try_into().ok().unwrap();
        let (key, end) = match api {
            Api::GenerateContent => ("\"contents\":[", "]"),
            _ => ("\"input\":[", "]"),
        };
        let start = first.text.split_once(key).unwrap().1;
        let conversation = start.split_once(&format!("{end},\"tools\"")).unwrap().0;
        assert!(second.text.contains(conversation), "{}\n{}", first.text, second.text);
    }
}

#[tokio::test]
async fn path_and_key_depend_on_the_settings() {
    let head = async |configure: fn(GeminiBuilder, &str) -> GeminiBuilder, api| {
        let server = Server::with_replies([minimal_reply(api)]).await;
        let base_url = server.base_url.clone();
        configure(server.builder(api), &base_url).build().unwrap().chat(&hello()).await.unwrap();
        let head = server.take_requests().remove(0).head;
        let key = header(&head, "x-goog-api-key").or(header(&head, "authorization")).unwrap_or("none");
        format!("{} {key}", head.lines().next().unwrap())
    };
    use Api::{GenerateContent, Interactions};
    assert_eq!(
        head(|it, _| it, GenerateContent).await,
        "POST /v1beta/models/gemini-3-flash:generateContent HTTP/1.1 test-key-1234"
    );
    assert_eq!(head(|it, _| it, Interactions).await, "POST /v1/interactions HTTP/1.1 test-key-1234");
    assert_eq!(
        head(
            |it, url| it.base_url(format!("{url}/v1/projects/p/publishers/google/")).bearer_token("ya29"),
            GenerateContent
        )
        .await,
        "POST /v1/projects/p/publishers/google/models/gemini-3-flash:generateContent HTTP/1.1 Bearer ya29"
    );
    assert_eq!(
        head(|it, url| it.base_url(format!("{url}/v1alpha")).api_key(""), Interactions).await,
        "POST /v1alpha/interactions HTTP/1.1 none"
    );
}

/// A recursive schema, and a keyword beside a reference.
#[tokio::test]
async fn schemas_of_tools_are_sent_unchanged_except_for_references() {
    let schema = json!({
        "properties": {"tree": {"$ref": "#/$defs/node", "description": "The root."}},
        "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}, "minProperties": 1}},
    });
    let request = hello().with_tools(ToolList::new("test", [tool("walk", schema)]));
    let body = body_of(Api::GenerateContent, &request, |it| it).await;
    expect![[r##"[{"functionDeclarations":[{"name":"walk","parametersJsonSchema":{"type":"object","properties":{"tree":{"description":"The root.","anyOf":[{"$ref":"#/$defs/node"}]}},"$defs":{"node":{"type":"object","properties":{"next":{"$ref":"#/$defs/node"}},"minProperties":1}}},"description":"Runs walk."}]}]"##]].assert_eq(&body["tools"].to_string());
    let body = body_of(Api::Interactions, &request, |it| it).await;
    expect![[r##"[{"name":"walk","parameters":{"type":"object","properties":{"tree":{"description":"The root.","anyOf":[{"$ref":"#/$defs/node"}]}},"$defs":{"node":{"type":"object","properties":{"next":{"$ref":"#/$defs/node"}},"minProperties":1}}},"description":"Runs walk.","type":"function"}]"##]].assert_eq(&body["tools"].to_string());
}
