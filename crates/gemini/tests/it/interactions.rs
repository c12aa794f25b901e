//! Requests and streams of the Interactions API.

use expect_test::expect;
use haft_core::{
    ChatModel, Message, Schema, ToolError, ToolName, ToolOutput, ToolResult,
    content::Content,
    message::{AssistantMessage, MessageBody},
    model::{ChatEvent, ChatRequest, ChatSettings, FinishReason, ModelError, ResponseFormat, ToolChoice},
};
use haft_gemini::{Api, GeminiBuilder, HarmBlockThreshold, HarmCategory, SafetySetting, ThinkingLevel};
use serde_json::{Value, json};

use crate::server::{
    Server, body_of, chat_with, finished, hello, interaction, minimal_reply, stream_bytes, stream_reply,
    stream_with, tools,
};

#[tokio::test]
async fn request_has_steps_settings_and_tools() {
    let reply = AssistantMessage {
        content: vec!["I add.".into()],
        tool_calls: vec![("a", "add", r#"{"x":1,"y":2}"#).into(), ("b", "3d_ping", "").into()],
        ..AssistantMessage::default()
    };
    let image = Content::from_bytes(*b"\x89PNG", "image/png");
    let output = ToolOutput { content: vec!["A cat:".into(), image.clone()], ..ToolOutput::default() };
    let user = MessageBody::User { content: vec!["Look".into(), image] };
    let messages = [
        Message::new(user),
        Message::assistant(reply),
        Message::tool(ToolResult::done("a", "add", output)),
        Message::tool(ToolResult::failed("b", "3d_ping", &ToolError::failed("no luck"))),
    ];
    let request = ChatRequest {
        instructions: Some(Message::system("Be brief.").into()),
        tool_choice: ToolChoice::Tool(ToolName::new("3d_ping").unwrap()),
        response_format: ResponseFormat::JsonSchema {
            name: ToolName::new("n").unwrap(),
            schema: Schema::new(json!({"type": "integer"})).unwrap(),
        },
        settings: ChatSettings {
            temperature: Some(0.5),
            max_tokens: Some(100),
            seed: Some(7),
            stop: vec!["END".to_owned()],
            ..ChatSettings::default()
        },
        ..ChatRequest::new(messages).with_tools(tools())
    };
    let configure = |builder: GeminiBuilder| {
        let category = HarmCategory::DangerousContent;
        let safety = [SafetySetting { category, threshold: HarmBlockThreshold::Off }];
        builder.thinking_level(ThinkingLevel::High).include_thoughts(true).safety_settings(safety)
    };
    let body = body_of(Api::Interactions, &request, configure).await;
    expect![[r#"
        {
          "model": "gemini-3-flash",
          "system_instruction": "Be brief.",
          "input": [
            {
              "type": "user_input",
              "content": [
                {
                  "type": "text",
                  "text": "Look"
                },
                {
                  "type": "image",
                  "mime_type": "image/png",
                  "data": "iVBORw=="
                }
              ]
            },
            {
              "type": "model_output",
              "content": [
                {
                  "type": "text",
                  "text": "I add."
                }
              ]
            },
            {
              "type": "thought",
              "signature": "skip_thought_signature_validator"
            },
            {
              "type": "function_call",
              "id": "a",
              "name": "add",
              "arguments": {
                "x": 1,
                "y": 2
              }
            },
            {
              "type": "function_call",
              "id": "b",
              "name": "_.3d_ping",
              "arguments": {}
            },
            {
              "type": "function_result",
              "call_id": "a",
              "name": "add",
              "result": [
                {
                  "type": "text",
                  "text": "A cat:"
                },
                {
                  "type": "image",
                  "mime_type": "image/png",
                  "data": "iVBORw=="
                }
              ]
            },
            {
              "type": "function_result",
              "call_id": "b",
              "name": "_.3d_ping",
              "result": "no luck",
              "is_error": true
            }
          ],
          "tools": [
            {
              "name": "add",
              "parameters": {
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
              "description": "Runs add.",
              "type": "function"
            },
            {
              "name": "_.3d_ping",
              "description": "Runs 3d_ping.",
              "type": "function"
            }
          ],
          "response_format": {
            "type": "text",
            "mime_type": "application/json",
            "schema": {
              "type": "integer"
            }
          },
          "safety_settings": [
            {
              "type": "dangerous_content",
              "threshold": "off"
            }
          ],
          "generation_config": {
            "temperature": 0.5,
            "max_output_tokens": 100,
            "stop_sequences": [
              "END"
            ],
            "seed": 7,
            "thinking_level": "high",
            "thinking_summaries": "auto",
            "tool_choice": {
              "allowed_tools": {
                "mode": "any",
                "tools": [
                  "_.3d_ping"
                ]
              }
            }
          },
          "store": false,
          "stream": false
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&body).unwrap());
}

/// The events of a streamed interaction with a thought, a search, a text with a citation, and a call.
pub(crate) fn sample_events() -> Vec<Value> {
    let event = |kind: &str, fields: Value| {
        let mut event = fields;
        event["event_type"] = kind.into();
        event
    };
    let start = |index: i64, step: Value| event("step.start", json!({"index": index, "step": step}));
    let delta = |index: i64, delta: Value| event("step.delta", json!({"index": index, "delta": delta}));
    let stop = |index: i64| event("step.stop", json!({"index": index}));
    let status = |status: &str| json!({"id": "r1", "status": status, "model": "gemini-3-flash-001"});
    let mut done = status("requires_action");
    done["usage"] = json!({
        "total_input_tokens": 10, "total_output_tokens": 5, "total_thought_tokens": 3, "total_cached_tokens": 4,
        "total_tool_use_tokens": 2, "grounding_tool_count": [{"type": "google_search", "count": 1}],
    });
    vec![
        event("interaction.created", json!({"interaction": status("in_progress")})),
        event("interaction.status_update", json!({"interaction_id": "r1", "status": "in_progress"})),
        start(0, json!({"type": "thought"})),
        delta(0, json!({"type": "thought_summary", "content": {"type": "text", "text": "Let me "}})),
        delta(0, json!({"type": "thought_summary", "content": {"type": "text", "text": "see."}})),
        delta(0, json!({"type": "thought_signature", "signature": "c2ln"})),
        stop(0),
        start(1, json!({"type": "google_search_call", "id": "s1", "arguments": {}})),
        delta(
            1,
            json!({"type": "google_search_call", "arguments": {"queries": ["haft"]}, "signature": "czE="}),
        ),
        stop(1),
        start(2, json!({"type": "google_search_result", "call_id": "s1", "result": []})),
        delta(
            2,
            json!({"type": "google_search_result", "result": [{"search_suggestions": "<b>"}], "signature": "czI="}),
        ),
        stop(2),
        start(3, json!({"type": "model_output"})),
        delta(3, json!({"type": "text", "text": "Grüße, "})),
        delta(3, json!({"type": "text", "text": "世界."})),
        delta(
            3,
            json!({"type": "text_annotation_delta", "annotations": [
                {"type": "url_citation", "start_index": 9, "end_index": 15, "url": "https://haft.rs", "title": "haft"},
            ]}),
        ),
        stop(3),
        start(4, json!({"type": "function_call", "id": "c1", "name": "add", "arguments": {}})),
        delta(4, json!({"type": "arguments_delta", "arguments": "{\"x\": 1,"})),
        delta(4, json!({"type": "arguments_delta", "arguments": " \"y\": 2}"})),
        stop(4),
        start(5, json!({"type": "function_call", "id": "c2", "name": "_.3d_ping", "arguments": {"n": 1}})),
        stop(5),
        event("interaction.completed", json!({"interaction": done})),
    ]
}

#[tokio::test]
async fn steps_are_streamed_and_sent_back() {
    let events = stream_with(Api::Interactions, &sample_events()).await;
    expect![[r#"
        ReasoningDelta { text: "Let me " }
        ReasoningDelta { text: "see." }
        HostedCallStarted { id: "s1", tool: "web_search" }
        HostedCallFinished { call: HostedCall { id: "s1", tool: "web_search", input: Object {"queries": Array [String("haft")]}, output: Array [Object {"search_suggestions": String("<b>")}], error: None } }
        TextDelta { text: "Grüße, " }
        TextDelta { text: "世界." }
        ToolCallStarted { index: 0, id: "c1", name: "add" }
        ToolCallDelta { index: 0, arguments: "{\"x\": 1," }
        ToolCallDelta { index: 0, arguments: " \"y\": 2}" }
        ToolCallStarted { index: 1, id: "c2", name: "3d_ping" }
        ToolCallDelta { index: 1, arguments: "{\"n\":1}" }
    "#]].assert_eq(&events[..events.len() - 1].iter().map(|it| format!("{it:?}\n")).collect::<String>());
    let response = finished(&events);
    assert_eq!(response.finish_reason, FinishReason::ToolCalls);
    let mut message = serde_json::to_value(&response.message).unwrap();
    message["provider_data"]["gemini"]["from"] = "server".into();
    expect![[r#"
        {
          "content": [
            {
              "type": "text",
              "text": "Grüße, 世界."
            }
          ],
          "reasoning": "Let me see.",
          "tool_calls": [
            {
              "id": "c1",
              "name": "add",
              "arguments": "{\"x\": 1, \"y\": 2}"
            },
            {
              "id": "c2",
              "name": "3d_ping",
              "arguments": "{\"n\":1}"
            }
          ],
          "hosted_calls": [
            {
              "id": "s1",
              "tool": "web_search",
              "input": {
                "queries": [
                  "haft"
                ]
              },
              "output": [
                {
                  "search_suggestions": "<b>"
                }
              ]
            }
          ],
          "citations": [
            {
              "range": {
                "start": 9,
                "end": 15
              },
              "title": "haft",
              "url": "https://haft.rs"
            }
          ],
          "provider_data": {
            "gemini": {
              "steps": [
                {
                  "part": {
                    "thought": [
                      0,
                      11
                    ]
                  },
                  "signature": "c2ln"
                },
                {
                  "part": {
                    "other": {
                      "type": "google_search_call",
                      "id": "s1",
                      "arguments": {
                        "queries": [
                          "haft"
                        ]
                      },
                      "signature": "czE="
                    }
                  }
                },
                {
                  "part": {
                    "other": {
                      "type": "google_search_result",
                      "call_id": "s1",
                      "result": [
                        {
                          "search_suggestions": "<b>"
                        }
                      ],
                      "signature": "czI="
                    }
                  }
                },
                {
                  "part": {
                    "text": [
                      0,
                      16
                    ]
                  }
                },
                {
                  "part": {
                    "call": {
                      "id": "c1",
                      "sent_id": "c1"
                    }
                  }
                },
                {
                  "part": {
                    "call": {
                      "id": "c2",
                      "sent_id": "c2"
                    }
                  }
                }
              ],
              "from": "server"
            }
          }
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&message).unwrap());
    expect![[r#"{"requests":1,"input_tokens":12,"output_tokens":8,"cached_input_tokens":4,"reasoning_tokens":3,"hosted_tool_requests":1}"#]].assert_eq(&serde_json::to_string(&response.usage).unwrap());
}

/// The steps are sent back to their server in their order, with their signatures.
#[tokio::test]
async fn steps_of_a_reply_return_to_its_server() {
    let server =
        Server::with_replies([stream_reply(&sample_events()), minimal_reply(Api::Interactions)]).await;
    let model = server.builder(Api::Interactions).build().unwrap();
    // The server streams although the request is not streamed.
    let message = model.chat(&hello()).await.unwrap().message;
    let results = ["c1", "c2"].map(|id| Message::tool(ToolResult::done(id, "add", ToolOutput::from("3"))));
    let messages = [Message::user("Hello"), Message::assistant(message)].into_iter().chain(results);
    model.chat(&ChatRequest::new(messages)).await.unwrap();
    let body = server.take_requests().remove(1).body;
    let steps: Vec<_> = body["input"].as_array().unwrap().iter().map(ToString::to_string).collect();
    expect![[r#"
        {"type":"user_input","content":[{"type":"text","text":"Hello"}]}
        {"type":"thought","signature":"c2ln","summary":[{"type":"text","text":"Let me see."}]}
        {"type":"google_search_call","id":"s1","arguments":{"queries":["haft"]},"signature":"czE="}
        {"type":"google_search_result","call_id":"s1","result":[{"search_suggestions":"<b>"}],"signature":"czI="}
        {"type":"model_output","content":[{"type":"text","text":"Grüße, 世界."}]}
        {"type":"function_call","id":"c1","name":"add","arguments":{"x":1,"y":2}}
        {"type":"function_call","id":"c2","name":"_.3d_ping","arguments":{"n":1}}
        {"type":"function_result","call_id":"c1","name":"add","result":"3"}
        {"type":"function_result","call_id":"c2","name":"add","result":"3"}"#]].assert_eq(&steps.join("\n"));
}

#[tokio::test]
async fn statuses_have_outcomes() {
    let reply = async |status: &str| {
        let mut reply =
            interaction(json!([{"type": "model_output", "content": [{"type": "text", "text": "Hi"}]}]));
        reply["status"] = status.into();
        chat_with(Api::Interactions, &reply).await
    };
    for (status, reason) in [
        ("completed", FinishReason::Stop),
        ("requires_action", FinishReason::ToolCalls),
        ("incomplete", FinishReason::Length),
        ("budget_exceeded", FinishReason::Length),
        ("requires_continuation", FinishReason::Length),
        ("new_status", FinishReason::Other("new_status".to_owned())),
    ] {
        assert_eq!(reply(status).await.unwrap().finish_reason, reason, "{status}");
    }
    for status in ["in_progress", "queued", "idle", "cancelled"] {
        let error = reply(status).await.unwrap_err();
        let ModelError::Truncated { partial, .. } = &error else { panic!("{status}: {error:?}") };
        assert_eq!(partial.text(), "Hi");
    }
    assert!(matches!(reply("failed").await.unwrap_err(), ModelError::Server { status: None, .. }));
}

#[tokio::test]
async fn errors_of_an_interaction_are_typed() {
    let failed = |errors: Value| json!({"id": "r1", "status": "failed", "errors": errors});
    let error = async |body: Value| chat_with(Api::Interactions, &body).await.unwrap_err();
    let limited =
        failed(json!([{"code": "https://ai.google.dev/errors/RESOURCE_EXHAUSTED", "message": "Slow down."}]));
    assert!(matches!(error(limited).await, ModelError::RateLimited { permanent: false, .. }));
    let blocked = failed(json!([{"code": "SAFETY", "message": "Blocked."}]));
    assert!(matches!(error(blocked).await, ModelError::ContentFiltered(_)));
    let denied = interaction(json!([{"type": "model_output", "error": {"code": 7, "message": "No."}}]));
    assert!(matches!(error(denied).await, ModelError::Unauthorized(_)));
    let event = json!({"event_type": "error", "error": {"code": "internal", "message": "Oops."}});
    let (_, error) = stream_bytes(Api::Interactions, stream_reply([&event])).await;
    assert!(matches!(error, Some(ModelError::Server { .. })), "{error:?}");
}

/// The last event may repeat the steps, and a stream may have no deltas.
#[tokio::test]
async fn steps_in_the_last_event_are_used_once() {
    let step = json!({"type": "model_output", "content": [{"type": "text", "text": "Hi"}]});
    let completed = json!({"event_type": "interaction.completed", "interaction": interaction(json!([step]))});
    let start = json!({"event_type": "step.start", "index": 0, "step": {"type": "model_output"}});
    let delta = json!({"event_type": "step.delta", "index": 0, "delta": {"type": "text", "text": "Hi"}});
    for events in [vec![completed.clone()], vec![start, delta, completed]] {
        let events = stream_with(Api::Interactions, &events).await;
        assert_eq!(events[0], ChatEvent::TextDelta { text: "Hi".to_owned() });
        assert_eq!(finished(&events).message.text(), "Hi");
    }
}
