//! Replies of `generateContent`, whole and streamed.

use expect_test::expect;
use haft_core::{
    content::Content,
    model::{ChatEvent, FinishReason, ModelError},
};
use haft_gemini::Api;
use serde_json::{Value, json};

use crate::server::{chat_with, content, finished, ok_reply, stream_bytes, stream_reply, stream_with};

/// The parts of a reply with thoughts, a text and two calls. The second call has no id.
fn sample_parts() -> Value {
    json!([
        {"text": "Let me see.", "thought": true},
        {"text": "I add.", "thoughtSignature": "c2lnMQ=="},
        {"functionCall": {"id": "c1", "name": "add", "args": {"x": 1, "y": 12345678901234567890u64}}, "thoughtSignature": "c2lnMg=="},
        {"functionCall": {"name": "_.3d_ping"}},
    ])
}

/// The reply of `sample_parts` as a stream.
pub(crate) fn sample_chunks() -> Vec<Value> {
    let chunk = |parts: Value| {
        json!({
            "candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}],
            "usageMetadata": {"promptTokenCount": 3, "totalTokenCount": 3},
            "modelVersion": "gemini-3-flash-001",
            "responseId": "r1",
        })
    };
    let parts = sample_parts();
    let mut last = content(json!([{"text": ""}]));
    last["usageMetadata"] = json!({
        "promptTokenCount": 10, "cachedContentTokenCount": 4, "candidatesTokenCount": 5,
        "thoughtsTokenCount": 3, "toolUsePromptTokenCount": 2, "totalTokenCount": 20,
    });
    vec![
        chunk(json!([{"text": "Let me ", "thought": true}])),
        chunk(json!([{"text": "see.", "thought": true}])),
        chunk(json!([{"text": "I "}])),
        chunk(json!([{"text": "add."}])),
        chunk(json!([{"text": "", "thoughtSignature": "c2lnMQ=="}])),
        chunk(json!([parts[2], parts[3]])),
        last,
    ]
}

#[tokio::test]
async fn whole_reply_has_text_thoughts_and_calls() {
    let response = chat_with(Api::GenerateContent, &content(sample_parts())).await.unwrap();
    assert_eq!(response.finish_reason, FinishReason::ToolCalls);
    assert_eq!((response.id.as_deref(), response.model.as_deref()), (Some("r1"), Some("gemini-3-flash-001")));
    assert_eq!((response.usage.input_tokens, response.usage.output_tokens), (3, 2));
    let message = response.message;
    assert_eq!((message.text().as_str(), message.reasoning.as_deref()), ("I add.", Some("Let me see.")));
    let calls: Vec<_> =
        message.tool_calls.iter().map(|call| (call.name.as_str(), &*call.arguments)).collect();
    assert_eq!(calls, [("add", r#"{"x":1,"y":12345678901234567890}"#), ("3d_ping", "{}")]);
    assert_eq!(message.tool_calls[0].id, "c1");
    assert!(message.tool_calls[1].id.starts_with("call_"));
    let mut data = message.provider_data.get("gemini").unwrap().clone();
    data["parts"][3]["part"]["call"]["id"] = "made".into();
    data["from"] = "server".into();
    expect![[r#"{"parts":[{"part":{"thought":[0,11]}},{"part":{"text":[0,6]},"signature":"c2lnMQ=="},{"part":{"call":{"id":"c1","sent_id":"c1"}},"signature":"c2lnMg=="},{"part":{"call":{"id":"made","sent_id":null}}}],"from":"server"}"#]].assert_eq(&data.to_string());
}

#[tokio::test]
async fn streamed_reply_equals_the_whole_reply() {
    let events = stream_with(Api::GenerateContent, &sample_chunks()).await;
    let response = finished(&events);
    let deltas: Vec<_> = events
        .iter()
        .filter(|it| matches!(it, ChatEvent::TextDelta { .. } | ChatEvent::ReasoningDelta { .. }))
        .collect();
    expect![[r#"[ReasoningDelta { text: "Let me " }, ReasoningDelta { text: "see." }, TextDelta { text: "I " }, TextDelta { text: "add." }]"#]].assert_eq(&format!("{deltas:?}"));
    let whole = chat_with(Api::GenerateContent, &content(sample_parts())).await.unwrap();
    assert_eq!(response.message.text(), whole.message.text());
    assert_eq!(response.message.reasoning, whole.message.reasoning);
    assert_eq!(response.message.tool_calls[0], whole.message.tool_calls[0]);
    expect![[
        r#"{"requests":1,"input_tokens":12,"output_tokens":8,"cached_input_tokens":4,"reasoning_tokens":3}"#
    ]]
    .assert_eq(&serde_json::to_string(&response.usage).unwrap());
}

/// A reply of a text and calls without signatures needs no provider data.
#[tokio::test]
async fn plain_reply_has_no_provider_data() {
    let parts = json!([{"text": "I add."}, {"functionCall": {"id": "c1", "name": "add", "args": {}}}]);
    let response = chat_with(Api::GenerateContent, &content(parts)).await.unwrap();
    assert!(response.message.provider_data.is_empty());
}

#[tokio::test]
async fn generated_images_are_content() {
    let parts = json!([{"text": "Here:"}, {"inlineData": {"mimeType": "image/png", "data": "iVBORw=="}}]);
    let response = chat_with(Api::GenerateContent, &content(parts)).await.unwrap();
    let image = Content::from_bytes(*b"\x89PNG", "image/png");
    assert_eq!(response.message.content, [Content::text("Here:"), image.clone()]);
    let only = json!([{"inlineData": {"mimeType": "image/png", "data": "iVBORw=="}}]);
    let response = chat_with(Api::GenerateContent, &content(only)).await.unwrap();
    assert_eq!(response.message.content, [image]);
    let broken = json!([{"inlineData": {"mimeType": "image/png", "data": "?"}}]);
    let error = chat_with(Api::GenerateContent, &content(broken)).await.unwrap_err();
    assert!(matches!(error, ModelError::InvalidResponse(_)), "{error:?}");
}

/// Some models send a finish reason with each chunk.
#[tokio::test]
async fn content_after_a_finish_reason_is_part_of_the_reply() {
    let events = [content(json!([{"text": "It is "}])), content(json!([{"text": "42."}]))];
    let events = stream_with(Api::GenerateContent, &events).await;
    assert_eq!(finished(&events).message.text(), "It is 42.");
}

/// A gateway may ignore `alt=sse`, or send a stream in place of a reply.
#[tokio::test]
async fn other_forms_of_a_reply_are_accepted() {
    let chunks = Value::Array(sample_chunks());
    let (events, error) = stream_bytes(Api::GenerateContent, ok_reply(&chunks)).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(finished(&events).message.tool_calls.len(), 2);
    let response = chat_with(Api::GenerateContent, &chunks).await.unwrap();
    assert_eq!(response.message.text(), "I add.");
}

#[tokio::test]
async fn blocked_prompt_is_a_content_filter_error() {
    let feedback = json!({"promptFeedback": {"blockReason": "SAFETY", "blockReasonMessage": "Dangerous."}});
    let error = chat_with(Api::GenerateContent, &feedback).await.unwrap_err();
    assert!(
        matches!(&error, ModelError::ContentFiltered(text) if text == "the prompt was blocked (SAFETY): Dangerous."),
        "{error:?}"
    );
    let (_, error) = stream_bytes(Api::GenerateContent, stream_reply([&feedback])).await;
    assert!(matches!(error, Some(ModelError::ContentFiltered(_))), "{error:?}");
}

#[tokio::test]
async fn reply_without_content_is_empty() {
    for body in [
        content(json!([])),
        json!({"candidates": []}),
        json!({"usageMetadata": {"promptTokenCount": 3}}),
        json!({"candidates": [{"content": {"role": "model"}, "finishReason": "STOP"}]}),
    ] {
        let error = chat_with(Api::GenerateContent, &body).await.unwrap_err();
        assert!(matches!(error, ModelError::EmptyResponse), "{body}: {error:?}");
    }
    for body in [json!({}), json!({"candidates": 1}), json!("Hi")] {
        let error = chat_with(Api::GenerateContent, &body).await.unwrap_err();
        assert!(matches!(error, ModelError::InvalidResponse(_)), "{body}: {error:?}");
    }
}
