//! Tests of the conversion of response schemas for a server, and of the conversion of its replies.

use expect_test::{Expect, expect};
use futures::TryStreamExt as _;
use haft_core::{
    ChatModel, Schema, ToolName,
    model::{ChatEvent, ChatRequest, ResponseFormat},
    schema::SchemaTarget,
};
use haft_openai::Provider;
use serde_json::{Value, json};

use crate::{
    server::{Server, Step, chunks_reply, hello, ok_reply, stream_reply},
    streams::{delta, finish},
};

fn request_for(schema: Value) -> ChatRequest {
    let name = ToolName::new("answer").unwrap();
    let schema = Schema::new(schema).unwrap();
    ChatRequest { response_format: ResponseFormat::JsonSchema { name, schema }, ..hello() }
}

fn point() -> Value {
    json!({"properties": {"x": {"type": "integer"}, "label": {"type": "string"}}, "required": ["x"]})
}

/// Returns a schema with alternatives at the root, like the schema of an agent's JSON steps.
fn step() -> Value {
    let one =
        |name: &str| json!({"type": "object", "properties": {"tool": {"const": name}}, "required": ["tool"]});
    json!({"anyOf": [one("add"), one("finish")]})
}

fn whole(text: &str) -> Vec<u8> {
    ok_reply(&json!({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}))
}

/// Asserts that a request with `schema` contains the response format `sent`, and that the server's
/// `reply`, non-streamed and streamed, is converted to `text`.
async fn check(provider: Option<Provider>, schema: Value, reply: &str, sent: Expect, text: &str) {
    let pieces: Vec<_> =
        reply.chars().map(|it| delta(json!({"content": it}))).chain([finish("stop")]).collect();
    let server = Server::with_replies([whole(reply), stream_reply(&pieces)]).await;
    let builder = server.builder();
    let model = match provider {
        Some(provider) => builder.provider(provider),
        None => builder,
    };
    let model = model.build().unwrap();
    let request = request_for(schema);
    assert_eq!(model.chat(&request).await.unwrap().message.text(), text);
    let events: Vec<_> = model.stream(&request).try_collect().await.unwrap();
    let Some(ChatEvent::Finished(last)) = events.last() else { panic!("{events:?}") };
    assert_eq!(last.message.text(), text);
    for request in server.take_requests() {
        sent.assert_eq(&request.body["response_format"].to_string());
    }
}

/// In strict mode, all properties are required, so the model writes null in place of an optional
/// property. The null is removed from the reply.
#[tokio::test]
async fn openai_gets_a_strict_schema() {
    check(
        Some(Provider::OpenAi),
        point(),
        r#"{"x":1,"label":null}"#,
        expect![[r#"{"type":"json_schema","json_schema":{"name":"answer","schema":{"type":"object","properties":{"x":{"type":"integer"},"label":{"type":["string","null"]}},"required":["x","label"],"additionalProperties":false},"strict":true}}"#]],
        r#"{"x":1}"#,
    )
    .await;
}

/// OpenAI accepts only an object without alternatives as the root of a response schema, so any
/// other root is wrapped in an object.
#[tokio::test]
async fn other_root_is_wrapped_and_the_reply_unwrapped() {
    check(
        Some(Provider::OpenAi),
        step(),
        r#"{ "value": {"tool":"add"} }"#,
        expect![[r#"{"type":"json_schema","json_schema":{"name":"answer","schema":{"type":"object","properties":{"value":{"anyOf":[{"type":"object","properties":{"tool":{"type":"string","const":"add"}},"required":["tool"],"additionalProperties":false},{"type":"object","properties":{"tool":{"type":"string","const":"finish"}},"required":["tool"],"additionalProperties":false}]}},"required":["value"],"additionalProperties":false},"strict":true}}"#]],
        r#"{"tool":"add"}"#,
    )
    .await;
    check(
        Some(Provider::Azure),
        json!({"type": "array", "items": {"type": "integer"}}),
        r#"{"value":[1]}"#,
        expect![[r#"{"type":"json_schema","json_schema":{"name":"answer","schema":{"type":"object","properties":{"value":{"type":"array","items":{"type":"integer"}}},"required":["value"]}}}"#]],
        "[1]",
    )
    .await;
}

/// A response schema that is incompatible with strict mode is sent without `strict`.
#[tokio::test]
async fn incompatible_schema_is_sent_without_strict() {
    check(
        Some(Provider::OpenAi),
        json!({"type": "object", "additionalProperties": {"type": "integer"}}),
        r#"{"a":1}"#,
        expect![[r#"{"type":"json_schema","json_schema":{"name":"answer","schema":{"type":"object","properties":{},"additionalProperties":{"type":"integer"}}}}"#]],
        r#"{"a":1}"#,
    )
    .await;
}

#[tokio::test]
async fn gemini_gets_its_schema_subset() {
    check(
        Some(Provider::Gemini),
        step(),
        r#"{"value":{"tool":"add"}}"#,
        expect![[r#"{"type":"json_schema","json_schema":{"name":"answer","schema":{"type":"object","properties":{"value":{"anyOf":[{"type":"object","properties":{"tool":{"type":"string","format":"enum","enum":["add"]}},"required":["tool"]},{"type":"object","properties":{"tool":{"type":"string","format":"enum","enum":["finish"]}},"required":["tool"]}]}},"required":["value"]}}}"#]],
        r#"{"tool":"add"}"#,
    )
    .await;
}

/// Servers such as llama.cpp use the schema only to constrain decoding, so it is sent unchanged.
#[tokio::test]
async fn other_servers_get_the_unchanged_schema() {
    for provider in [None, Some(Provider::LlamaCpp)] {
        check(
            provider,
            step(),
            r#"{ "tool":"add"}"#,
            expect![[r#"{"type":"json_schema","json_schema":{"name":"answer","schema":{"anyOf":[{"type":"object","properties":{"tool":{"const":"add"}},"required":["tool"]},{"type":"object","properties":{"tool":{"const":"finish"}},"required":["tool"]}]}}}"#]],
            r#"{ "tool":"add"}"#,
        )
        .await;
    }
}

#[tokio::test]
async fn text_deltas_are_unwrapped() {
    let pieces = ["{\"va", "lue\": {\"to", "ol\":\"add\"}", "\n}"];
    let pieces: Vec<_> =
        pieces.iter().map(|it| delta(json!({"content": it}))).chain([finish("stop")]).collect();
    let cut = Step::Send(chunks_reply(&pieces[..2]));
    let server = Server::start([vec![Step::Send(stream_reply(&pieces))], vec![cut]]).await;
    let model =
        server.builder().tool_schema_target(SchemaTarget::OpenAiStrict).max_retries(0).build().unwrap();
    let request = request_for(step());
    let events: Vec<_> = model.stream(&request).try_collect().await.unwrap();
    let texts = events.iter().filter_map(|event| match event {
        ChatEvent::TextDelta { text } => Some(text.as_str()),
        _ => None,
    });
    assert_eq!(texts.collect::<String>(), r#"{"tool":"add"}"#);
    let error = model.stream(&request).try_collect::<Vec<_>>().await.unwrap_err();
    let haft_core::model::ModelError::Truncated { partial, .. } = error else { panic!("{error:?}") };
    assert_eq!(partial.text(), "{\"to");
}

#[tokio::test]
async fn responses_api_gets_a_strict_schema() {
    let message = json!({"type": "message", "content": [{"type": "output_text", "text": "{\"value\":{\"tool\":\"add\"}}"}]});
    let server = Server::with_replies([ok_reply(&json!({"status": "completed", "output": [message]}))]).await;
    let model = server.responses().provider(Provider::OpenAi).build().unwrap();
    let reply = model.chat(&request_for(step())).await.unwrap();
    assert_eq!(reply.message.text(), r#"{"tool":"add"}"#);
    let format = server.take_requests().remove(0).body["text"]["format"].take();
    assert_eq!(format["strict"], true);
    assert_eq!(format["schema"]["type"], "object");
}

#[tokio::test]
async fn text_deltas_beside_a_call_equal_the_reply() {
    let call = json!([{"index": 0, "id": "a", "function": {"name": "add", "arguments": "{}"}}]);
    let sent = [
        delta(json!({"content": "{\"value\":{\"tool\":\"add\"}}"})),
        delta(json!({"tool_calls": call})),
        finish("tool_calls"),
    ];
    let server = Server::with_replies([stream_reply(&sent)]).await;
    let model = server.builder().tool_schema_target(SchemaTarget::OpenAiStrict).build().unwrap();
    let events: Vec<_> = model.stream(&request_for(step())).try_collect().await.unwrap();
    let texts = events.iter().filter_map(|event| match event {
        ChatEvent::TextDelta { text } => Some(text.as_str()),
        _ => None,
    });
    let Some(ChatEvent::Finished(reply)) = events.last() else { panic!("{events:?}") };
    assert_eq!(reply.message.text(), texts.collect::<String>());
    assert_eq!(reply.message.text(), r#"{"tool":"add"}"#);
}
