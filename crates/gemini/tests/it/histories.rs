//! Conversations with replies of this model, of other models and of other servers.

use expect_test::expect;
use haft_core::{ChatModel, Message, ToolOutput, ToolResult, message::AssistantMessage, model::ChatRequest};
use haft_gemini::Api;
use serde_json::{Value, json};

use crate::server::{Server, body_of, content, hello, minimal_reply, ok_reply};

const API: Api = Api::GenerateContent;

fn result(id: &str) -> Message {
    Message::tool(ToolResult::done(id, "add", ToolOutput::from("3")))
}

/// Returns the contents of the request that continues `message`, the reply of `server`, at `target`.
async fn continued(parts: Value, target: Option<&Server>, name: &str) -> (AssistantMessage, Value) {
    let own = Server::with_replies([ok_reply(&content(parts)), minimal_reply(API)]).await;
    let message = own.named(API, name).build().unwrap().chat(&hello()).await.unwrap().message;
    let server = target.unwrap_or(&own);
    let results: Vec<_> = message.tool_calls.iter().map(|call| result(&call.id)).collect();
    let messages = [Message::user("Hello"), Message::assistant(message.clone())];
    let request = ChatRequest::new(messages.into_iter().chain(results));
    server.named(API, name).build().unwrap().chat(&request).await.unwrap();
    (message, server.take_requests().pop().unwrap().body["contents"].clone())
}

fn sample_parts() -> Value {
    json!([
        {"text": "Let me see.", "thought": true, "thoughtSignature": "czA="},
        {"text": "I ", "thoughtSignature": "czE="},
        {"text": "add."},
        {"functionCall": {"id": "c1", "name": "add", "args": {"x": 1, "y": 2}}, "thoughtSignature": "czI="},
        {"functionCall": {"name": "add", "args": {"x": 3, "y": 4}}},
        {"executableCode": {"language": "PYTHON", "code": "1+2", "id": "e1"}, "thoughtSignature": "czM="},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "3", "id": "e1"}},
        {"inlineData": {"mimeType": "image/png", "data": "iVBORw=="}, "thoughtSignature": "czQ="},
        {"newKind": {"a": 1}},
        {"thoughtSignature": "czU="},
    ])
}

/// The parts of a reply return unchanged, with their signatures. An id that the server did not send
/// is not sent.
#[tokio::test]
async fn parts_of_a_reply_return_to_its_server() {
    let (message, contents) = continued(sample_parts(), None, "gemini-3-flash").await;
    let mut expected = sample_parts();
    expected[9] = json!({"text": "", "thoughtSignature": "czU="});
    assert_eq!(contents[1], json!({"role": "model", "parts": expected}));
    let ids: Vec<_> =
        contents[2]["parts"].as_array().unwrap().iter().map(|it| it["functionResponse"].get("id")).collect();
    assert_eq!(ids, [Some(&json!("c1")), None]);
    // The text and the arguments are only in the message.
    let data = message.provider_data.get("gemini").unwrap().to_string();
    assert!(!data.contains("add.") && !data.contains("Let me see"), "{data}");
}

/// Another server gets no signatures of this server, and its requests need no placeholder for an
/// earlier model.
#[tokio::test]
async fn parts_of_another_server_are_not_sent() {
    let other = Server::with_replies([minimal_reply(API)]).await;
    let parts =
        json!([{"functionCall": {"id": "c1", "name": "add", "args": {}}, "thoughtSignature": "czI="}]);
    let (_, contents) = continued(parts, Some(&other), "gemini-2.5-flash").await;
    assert_eq!(contents[1]["parts"], json!([{"functionCall": {"id": "c1", "name": "add", "args": {}}}]));
}

/// The first call of each reply in the current turn gets a fixed signature if it has none. Earlier
/// turns and later calls get none.
#[tokio::test]
async fn unsigned_calls_of_the_current_turn_get_a_fixed_signature() {
    let reply = |ids: &[&str]| {
        Message::assistant(AssistantMessage {
            tool_calls: ids.iter().map(|id| (*id, "add", "{}").into()).collect(),
            ..AssistantMessage::default()
        })
    };
    let messages = [
        Message::user("One"),
        reply(&["a"]),
        result("a"),
        Message::assistant("Done."),
        Message::user("Two"),
        reply(&["b", "c"]),
        result("b"),
        result("c"),
        reply(&["d"]),
        result("d"),
    ];
    let request = ChatRequest::new(messages);
    let body = body_of(API, &request, |it| it).await;
    let contents: Vec<_> = body["contents"].as_array().unwrap().iter().map(ToString::to_string).collect();
    expect![[r#"
        {"role":"user","parts":[{"text":"One"}]}
        {"role":"model","parts":[{"functionCall":{"id":"a","name":"add","args":{}}}]}
        {"role":"user","parts":[{"functionResponse":{"name":"add","response":{"output":"3"},"id":"a"}}]}
        {"role":"model","parts":[{"text":"Done."}]}
        {"role":"user","parts":[{"text":"Two"}]}
        {"role":"model","parts":[{"functionCall":{"id":"b","name":"add","args":{}},"thoughtSignature":"skip_thought_signature_validator"},{"functionCall":{"id":"c","name":"add","args":{}}}]}
        {"role":"user","parts":[{"functionResponse":{"name":"add","response":{"output":"3"},"id":"b"}},{"functionResponse":{"name":"add","response":{"output":"3"},"id":"c"}}]}
        {"role":"model","parts":[{"functionCall":{"id":"d","name":"add","args":{}},"thoughtSignature":"skip_thought_signature_validator"}]}
        {"role":"user","parts":[{"functionResponse":{"name":"add","response":{"output":"3"},"id":"d"}}]}"#]].assert_eq(&contents.join("\n"));
    let body = body_of(Api::Interactions, &request, |it| it).await;
    let steps: Vec<_> = body["input"].as_array().unwrap().iter().map(ToString::to_string).collect();
    expect![[r#"
        {"type":"user_input","content":[{"type":"text","text":"One"}]}
        {"type":"function_call","id":"a","name":"add","arguments":{}}
        {"type":"function_result","call_id":"a","name":"add","result":"3"}
        {"type":"model_output","content":[{"type":"text","text":"Done."}]}
        {"type":"user_input","content":[{"type":"text","text":"Two"}]}
        {"type":"thought","signature":"skip_thought_signature_validator"}
        {"type":"function_call","id":"b","name":"add","arguments":{}}
        {"type":"function_call","id":"c","name":"add","arguments":{}}
        {"type":"function_result","call_id":"b","name":"add","result":"3"}
        {"type":"function_result","call_id":"c","name":"add","result":"3"}
        {"type":"thought","signature":"skip_thought_signature_validator"}
        {"type":"function_call","id":"d","name":"add","arguments":{}}
        {"type":"function_result","call_id":"d","name":"add","result":"3"}"#]]
    .assert_eq(&steps.join("\n"));
    let older = Server::with_replies([minimal_reply(API)]).await;
    older.named(API, "gemini-2.5-pro").build().unwrap().chat(&request).await.unwrap();
    assert!(!older.take_requests()[0].text.contains("thoughtSignature"));
}

/// If the program changed the text of a reply, the stored parts do not fit any more.
#[tokio::test]
async fn changed_reply_is_sent_from_its_message() {
    let server = Server::with_replies([ok_reply(&content(sample_parts())), minimal_reply(API)]).await;
    let model = server.builder(API).build().unwrap();
    let mut message = model.chat(&hello()).await.unwrap().message;
    message.content = vec!["Short.".into()];
    message.tool_calls.clear();
    model.chat(&ChatRequest::new([Message::user("Hello"), Message::assistant(message)])).await.unwrap();
    let contents = server.take_requests().pop().unwrap().body["contents"].clone();
    assert_eq!(contents[1]["parts"], json!([{"text": "Short."}]));
}

/// A refusal of another model is sent as text, and a reply without content is left out.
#[tokio::test]
async fn refusals_are_text_and_empty_replies_are_omitted() {
    let refused = AssistantMessage { refusal: Some("I cannot.".to_owned()), ..AssistantMessage::default() };
    let messages = [
        Message::user("One"),
        Message::assistant(refused),
        Message::user("Two"),
        Message::assistant(AssistantMessage::default()),
        Message::user("Three"),
    ];
    let body = body_of(API, &ChatRequest::new(messages), |it| it).await;
    assert_eq!(
        body["contents"],
        json!([
            {"role": "user", "parts": [{"text": "One"}]},
            {"role": "model", "parts": [{"text": "I cannot."}]},
            {"role": "user", "parts": [{"text": "Two"}, {"text": "Three"}]},
        ])
    );
}
