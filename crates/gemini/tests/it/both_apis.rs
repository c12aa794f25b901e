//! Tests that run with both APIs.

use std::time::Duration;

use futures::TryStreamExt as _;
use haft_core::{
    ChatModel, Schema, ToolName,
    model::{ChatEvent, ChatRequest, FinishReason, ModelError, ResponseFormat},
};
use haft_gemini::{Api, Timeouts};
use serde_json::{Value, json};

use crate::server::{
    STREAM, Server, Step, chat_with, content, events_text, finished, hello, interaction, minimal_reply,
    reply, stream_bytes,
};

const APIS: [Api; 2] = [Api::GenerateContent, Api::Interactions];

/// A whole reply with a text and a call.
fn sample(api: Api) -> Value {
    match api {
        Api::GenerateContent => content(json!([
            {"text": "Grüße 🌍"},
            {"functionCall": {"id": "c1", "name": "add", "args": {"x": 1}}, "thoughtSignature": "c2ln"},
        ])),
        _ => interaction(json!([
            {"type": "model_output", "content": [{"type": "text", "text": "Grüße 🌍"}]},
            {"type": "thought", "signature": "c2ln"},
            {"type": "function_call", "id": "c1", "name": "add", "arguments": {"x": 1}},
        ])),
    }
}

/// The events of a stream with the reply of [`sample`].
pub(crate) fn sample_events(api: Api) -> Vec<Value> {
    let whole = sample(api);
    match api {
        Api::GenerateContent => {
            let chunk =
                |part: &Value| json!({"candidates": [{"content": {"role": "model", "parts": [part]}}]});
            let parts = whole["candidates"][0]["content"]["parts"].as_array().unwrap();
            let mut chunks: Vec<_> = parts.iter().map(chunk).collect();
            chunks.push(content(json!([])));
            chunks
        }
        _ => {
            let mut events = Vec::new();
            for (index, step) in whole["steps"].as_array().unwrap().iter().enumerate() {
                events.push(json!({"event_type": "step.start", "index": index, "step": step}));
                events.push(json!({"event_type": "step.stop", "index": index}));
            }
            let mut completed = interaction(json!([]));
            completed.as_object_mut().unwrap().remove("steps");
            events.push(json!({"event_type": "interaction.completed", "interaction": completed}));
            events
        }
    }
}

#[tokio::test]
async fn whole_and_streamed_replies_are_equal() {
    for api in APIS {
        let whole = chat_with(api, &sample(api)).await.unwrap();
        assert_eq!(
            (whole.message.text().as_str(), &whole.finish_reason),
            ("Grüße 🌍", &FinishReason::ToolCalls)
        );
        let call = &whole.message.tool_calls[0];
        assert_eq!((&*call.id, &*call.name, &*call.arguments), ("c1", "add", r#"{"x":1}"#));
        assert_eq!((whole.usage.input_tokens, whole.usage.output_tokens), (3, 2));
        let events = crate::server::stream_with(api, &sample_events(api)).await;
        let streamed = finished(&events);
        let strip = |message: &haft_core::message::AssistantMessage| {
            let mut message = serde_json::to_value(message).unwrap();
            message["provider_data"]["gemini"]["from"] = Value::Null;
            message
        };
        assert_eq!(strip(&streamed.message), strip(&whole.message), "{api:?}");
        assert!(
            events.iter().any(|event| matches!(event, ChatEvent::ToolCallStarted { id, .. } if id == "c1"))
        );
    }
}

/// A stream that is cut at any event, or inside of it, is an error with the partial reply. It never
/// has a complete reply, so no call runs.
#[tokio::test]
async fn cut_stream_is_an_error() {
    for api in APIS {
        let events = sample_events(api);
        let text = events_text(&events);
        for end in
            (0..events.len()).map(|count| events_text(&events[..count]).len()).chain([20, text.len() - 40])
        {
            let bytes = [STREAM.as_bytes(), &text.as_bytes()[..end]].concat();
            let (events, error) = stream_bytes(api, bytes).await;
            assert!(!events.iter().any(|event| matches!(event, ChatEvent::Finished(_))), "{api:?} {end}");
            assert!(matches!(error, Some(ModelError::Truncated { .. })), "{api:?} {end}: {error:?}");
        }
    }
}

#[tokio::test]
async fn reset_and_stalled_streams_are_errors() {
    for api in APIS {
        let events = sample_events(api);
        let start = (STREAM.to_owned() + &events_text(&events[..1])).into_bytes();
        let mut timeouts = Timeouts::default();
        timeouts.idle = Duration::from_millis(100);
        let server = Server::start([
            vec![Step::Send(start.clone()), Step::Pause(Duration::from_millis(20)), Step::Reset],
            vec![Step::Send(start), Step::Stall],
        ])
        .await;
        let model = server.builder(api).max_retries(0).timeouts(timeouts).build().unwrap();
        let request = hello();
        let cut = model.stream(&request).try_collect::<Vec<_>>().await.unwrap_err();
        assert!(matches!(cut, ModelError::Truncated { .. }), "{cut:?}");
        let stalled = model.stream(&request).try_collect::<Vec<_>>().await.unwrap_err();
        assert!(matches!(stalled, ModelError::TimedOut { .. }), "{stalled:?}");
    }
}

#[tokio::test]
async fn transient_errors_are_retried() {
    for api in APIS {
        let limited = reply(
            "429 Too Many Requests",
            "",
            r#"{"error":{"code":429,"message":"Slow down.","status":"RESOURCE_EXHAUSTED"}}"#,
        );
        let server =
            Server::with_replies([limited, reply("503 Service Unavailable", "", "busy"), minimal_reply(api)])
                .await;
        let response = server.builder(api).build().unwrap().chat(&hello()).await.unwrap();
        assert_eq!(response.message.text(), "Hi");
        assert_eq!(server.take_requests().len(), 3);
    }
}

/// The schema is sent unchanged, so the reply needs no conversion.
#[tokio::test]
async fn structured_output_of_any_type_is_returned() {
    for api in APIS {
        let body = match api {
            Api::GenerateContent => content(json!([{"text": "[1, 2]"}])),
            _ => interaction(
                json!([{"type": "model_output", "content": [{"type": "text", "text": "[1, 2]"}]}]),
            ),
        };
        let server = Server::with_replies([crate::server::ok_reply(&body)]).await;
        let request = ChatRequest {
            response_format: ResponseFormat::JsonSchema {
                name: ToolName::new("numbers").unwrap(),
                schema: Schema::new(json!({"type": "array", "items": {"type": "integer"}})).unwrap(),
            },
            ..hello()
        };
        let response = server.builder(api).build().unwrap().chat(&request).await.unwrap();
        assert_eq!(response.message.text(), "[1, 2]");
    }
}

#[tokio::test]
async fn stream_path_and_field_are_set() {
    let server = Server::start([vec![], vec![]]).await;
    let model = server.builder(Api::GenerateContent).max_retries(0).build().unwrap();
    let request = hello();
    let _ = model.stream(&request).try_collect::<Vec<_>>().await;
    let model = server.builder(Api::Interactions).max_retries(0).build().unwrap();
    let _ = model.stream(&request).try_collect::<Vec<_>>().await;
    let [first, second] = server.take_requests().try_into().ok().unwrap();
    assert!(
        first.head.starts_with("POST /v1beta/models/gemini-3-flash:streamGenerateContent?alt=sse HTTP/1.1"),
        "{}",
        first.head
    );
    assert_eq!(second.body["stream"], true);
}

/// A gateway written in JavaScript can split a string inside a surrogate pair.
#[tokio::test]
async fn split_surrogate_pair_is_joined() {
    for api in APIS {
        let events = match api {
            Api::GenerateContent => vec![
                json!({"candidates": [{"content": {"parts": [{"text": "A HIGH"}]}}]}),
                json!({"candidates": [{"content": {"parts": [{"text": "LOW B"}]}, "finishReason": "STOP"}]}),
            ],
            _ => {
                let delta = |text: &str| json!({"event_type": "step.delta", "index": 0, "delta": {"type": "text", "text": text}});
                let mut completed = interaction(json!([]));
                completed.as_object_mut().unwrap().remove("steps");
                vec![
                    json!({"event_type": "step.start", "index": 0, "step": {"type": "model_output"}}),
                    delta("A HIGH"),
                    delta("LOW B"),
                    json!({"event_type": "interaction.completed", "interaction": completed}),
                ]
            }
        };
        let text = events_text(&events).replace("HIGH", "\\ud83c").replace("LOW", "\\udf0d");
        let (events, error) = stream_bytes(api, [STREAM, &text].concat().into_bytes()).await;
        assert!(error.is_none(), "{api:?}: {error:?}");
        assert_eq!(finished(&events).message.text(), "A 🌍 B", "{api:?}");
    }
}
