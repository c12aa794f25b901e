//! Tests of request parameters that a server rejects.

use futures::TryStreamExt as _;
use haft_core::{
    ChatModel, Message, Schema, ToolCall, ToolDefinition, ToolName, ToolOutput, ToolResult,
    content::Content,
    message::AssistantMessage,
    model::{ChatRequest, ChatSettings, ModelError},
    tool::DynamicTool,
    toolset::ToolList,
};
use haft_openai::Provider;
use serde_json::{Value, json};

use crate::server::{Server, chunks_reply, hello, minimal_reply, ok_reply, reply};

fn rejection(error: Value) -> Vec<u8> {
    reply("400 Bad Request", "", &json!({"error": error}).to_string())
}

fn settings() -> ChatSettings {
    ChatSettings {
        temperature: Some(0.5),
        top_p: Some(0.9),
        max_tokens: Some(9),
        stop: vec!["END".into()],
        seed: Some(7),
        parallel_tool_calls: Some(false),
    }
}

fn with_settings() -> ChatRequest {
    let definition = ToolDefinition::new(ToolName::new("now").unwrap(), Schema::object());
    let tools = ToolList::new("test", [DynamicTool::new(definition, |_, _| async { "noon" })]);
    ChatRequest { settings: settings(), ..hello().with_tools(tools) }
}

/// Sends two model requests. Returns one flag per HTTP request, which is `true` if the body
/// contained `parameter`.
async fn sends_param(server: &Server, model: &impl ChatModel, parameter: &str) -> Vec<bool> {
    for _ in 0..2 {
        model.chat(&with_settings()).await.unwrap();
    }
    server.take_requests().iter().map(|request| request.body.get(parameter).is_some()).collect()
}

/// OpenAI's reasoning models reject settings such as `temperature`. The rejected setting is omitted
/// from later requests.
#[tokio::test]
async fn rejected_parameter_is_omitted_from_then_on() {
    let openai = |name: &str| {
        let message = format!("Unsupported parameter: '{name}' is not supported with this model.");
        json!({"message": message, "type": "invalid_request_error", "param": name, "code": "unsupported_parameter"})
    };
    let value = json!({"message": "Unsupported value: 'temperature' does not support 0.5 with this model.", "param": "temperature"});
    let grok = json!("Model grok-4 does not support parameter stop.");
    let cases = [("stop", grok), ("temperature", value)].into_iter().chain(
        ["stop", "seed", "temperature", "top_p", "parallel_tool_calls"].map(|name| (name, openai(name))),
    );
    for (name, error) in cases {
        let server = Server::with_replies([rejection(error), minimal_reply(), minimal_reply()]).await;
        let model = server.builder().max_retries(0).build().unwrap();
        assert_eq!(sends_param(&server, &model, name).await, [true, false, false], "{name}");
    }
}

#[tokio::test]
async fn parameter_rejected_by_the_responses_api_is_omitted() {
    let message = json!({"type": "message", "content": [{"type": "output_text", "text": "Hi"}]});
    let minimal_reply = ok_reply(&json!({"status": "completed", "output": [message]}));
    for name in ["temperature", "top_p", "parallel_tool_calls", "include"] {
        let message = format!("Unsupported parameter: '{name}' is not supported with this model.");
        let rejection = rejection(json!({"message": message, "param": name}));
        let server = Server::with_replies([rejection, minimal_reply.clone(), minimal_reply.clone()]).await;
        let model = server.responses().max_retries(0).build().unwrap();
        assert_eq!(sends_param(&server, &model, name).await, [true, false, false], "{name}");
    }
}

#[tokio::test]
async fn rejected_value_is_an_error() {
    let error = json!({"message": "Invalid 'stop': array too long. Expected an array with maximum length 4.", "param": "stop"});
    let server = Server::with_replies([rejection(error), minimal_reply()]).await;
    let error = server.model().chat(&with_settings()).await.unwrap_err();
    assert!(matches!(error, ModelError::Rejected { status: 400, .. }), "{error:?}");
}

/// A parameter is omitted from later requests only if the request without it succeeded.
#[tokio::test]
async fn omitted_parameter_is_remembered_only_after_success() {
    let rejected = || rejection(json!({"message": "Encrypted content is not supported with this model."}));
    let message = json!({"type": "message", "content": [{"type": "output_text", "text": "Hi"}]});
    let minimal_reply = || ok_reply(&json!({"status": "completed", "output": [message]}));
    for (replies, expected) in [
        (vec![rejected(), rejected(), minimal_reply()], [true, false, true]),
        (vec![rejected(), minimal_reply(), minimal_reply()], [true, false, false]),
    ] {
        let server = Server::with_replies(replies).await;
        let model = server.responses().max_retries(0).build().unwrap();
        let _ = model.chat(&hello()).await;
        model.chat(&hello()).await.unwrap();
        let sent = server.take_requests().into_iter().map(|it| it.body.get("include").is_some());
        assert_eq!(sent.collect::<Vec<_>>(), expected);
    }
}

/// An error message with the English word "include" does not refer to the parameter `include`, so
/// encrypted reasoning is still requested.
#[tokio::test]
async fn encrypted_reasoning_is_still_requested_after_another_rejection() {
    let other = || rejection(json!({"message": "Please include a user message", "param": "input"}));
    let message = json!({"type": "message", "content": [{"type": "output_text", "text": "Hi"}]});
    let server =
        Server::with_replies([other(), ok_reply(&json!({"status": "completed", "output": [message]}))]).await;
    let model = server.responses().max_retries(0).build().unwrap();
    assert!(model.chat(&hello()).await.is_err());
    model.chat(&hello()).await.unwrap();
    let sent: Vec<_> = server.take_requests().into_iter().map(|it| it.body["include"].is_array()).collect();
    assert_eq!(sent, [true, true]);
}

/// A reasoning item without content is only a reference to stored reasoning. The item is sent back
/// only if the server stores responses, because other servers reject it.
#[tokio::test]
async fn reasoning_without_content_is_sent_back_only_if_stored() {
    let call = json!({"type": "function_call", "call_id": "a", "name": "now", "arguments": "{}"});
    let empty = json!({"type": "reasoning", "id": "rs_1", "summary": []});
    let open = json!({"type": "reasoning", "id": "rs_2", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]});
    let encrypted = json!({"type": "reasoning", "id": "rs_3", "summary": [], "encrypted_content": "x"});
    let output = [empty.clone(), open, encrypted, call];
    let first = ok_reply(&json!({"id": "r", "status": "completed", "output": output}));
    let message = json!({"type": "message", "content": [{"type": "output_text", "text": "Hi"}]});
    let last = ok_reply(&json!({"status": "completed", "output": [message]}));
    for (stored, expected) in [(false, vec!["rs_2", "rs_3"]), (true, vec!["rs_1", "rs_2", "rs_3"])] {
        let server = Server::with_replies([first.clone(), last.clone()]).await;
        let model = server.responses().store(stored).build().unwrap();
        let message = model.chat(&hello()).await.unwrap().message;
        let result = Message::tool(ToolResult::done("a", "now", "noon".into()));
        model
            .chat(&ChatRequest::new([Message::user("Hello"), Message::assistant(message), result]))
            .await
            .unwrap();
        let sent = server.take_requests().pop().unwrap().body["input"].take();
        let ids = sent.as_array().unwrap().iter().filter_map(|item| item["id"].as_str());
        assert_eq!(ids.collect::<Vec<_>>(), expected);
    }
}

fn roles(body: &Value) -> Vec<&str> {
    body["messages"].as_array().unwrap().iter().map(|message| message["role"].as_str().unwrap()).collect()
}

/// Returns a conversation with a user message after tool results, and an image in a tool result.
fn conversation_with_media() -> ChatRequest {
    let tool_calls = vec![ToolCall::new("a", "draw", "{}"), ToolCall::new("b", "now", "{}")];
    let picture =
        ToolOutput { content: vec![Content::from_bytes(*b"cat", "image/png")], ..ToolOutput::default() };
    let calls =
        || Message::assistant(AssistantMessage { tool_calls: tool_calls.clone(), ..Default::default() });
    ChatRequest::new([
        Message::user("Draw."),
        calls(),
        Message::tool(ToolResult::done("a", "draw", picture)),
        Message::tool(ToolResult::done("b", "now", "noon".into())),
        Message::assistant("A cat."),
        Message::user("Again."),
        calls(),
        Message::tool(ToolResult::done("a", "draw", "no".into())),
        Message::tool(ToolResult::done("b", "now", "noon".into())),
        Message::user("Thanks."),
    ])
}

const BRIDGED: [&str; 13] = [
    "user",
    "assistant",
    "tool",
    "tool",
    "assistant",
    "user",
    "assistant",
    "user",
    "assistant",
    "tool",
    "tool",
    "assistant",
    "user",
];

/// An assistant message is inserted after the tool results, because Mistral rejects a user message
/// directly after a tool result.
#[tokio::test]
async fn assistant_message_follows_tool_results_for_mistral() {
    let server = Server::with_replies([minimal_reply()]).await;
    let builder = haft_openai::ChatCompletions::builder("pixtral-large").base_url(&server.base_url);
    builder.provider(Provider::Mistral).build().unwrap().chat(&conversation_with_media()).await.unwrap();
    let body = server.take_requests().remove(0).body;
    assert_eq!(roles(&body), BRIDGED);
    assert_eq!(body["messages"][5]["content"][1]["type"], "image_url");
}

/// Servers of other providers may also run Mistral models. If such a server rejects a user message
/// after a tool result, an assistant message is inserted from then on.
#[tokio::test]
async fn assistant_message_follows_tool_results_after_a_rejection() {
    let rejection = rejection(
        json!({"message": "Unexpected role 'user' after role 'tool'", "type": "BadRequestError", "code": 400}),
    );
    let server = Server::with_replies([rejection, minimal_reply(), minimal_reply()]).await;
    let builder = haft_openai::ChatCompletions::builder("pixtral-12b").base_url(&server.base_url);
    let model = builder.max_retries(0).build().unwrap();
    for _ in 0..2 {
        model.chat(&conversation_with_media()).await.unwrap();
    }
    let requests = server.take_requests();
    assert!(roles(&requests[0].body).windows(2).any(|pair| pair == ["tool", "user"]));
    for request in &requests[1..] {
        assert_eq!(roles(&request.body), BRIDGED);
    }
}

/// If an error has a `param`, only this parameter is omitted, because the message may also list
/// supported parameters. Without a `param`, the listed parameters are omitted one after another
/// until a request succeeds. Only the parameter that was omitted last is remembered.
#[tokio::test]
async fn only_the_rejected_parameter_is_omitted() {
    const NAMES: [&str; 4] = ["stop", "seed", "temperature", "top_p"];
    let words = "'top_p' is not supported with this model. Supported are 'stop', 'seed' and 'temperature'.";
    for (parameter, rejections) in [(Some("top_p"), 1), (None, 4)] {
        let rejected = rejection(json!({"message": words, "param": parameter}));
        let replies = vec![rejected; rejections].into_iter().chain([minimal_reply(), minimal_reply()]);
        let server = Server::with_replies(replies).await;
        let model = server.builder().max_retries(0).build().unwrap();
        for _ in 0..2 {
            model.chat(&with_settings()).await.unwrap();
        }
        let sent = server.take_requests();
        let last = &sent.last().unwrap().body;
        assert_eq!(NAMES.map(|name| last.get(name).is_some()), [true, true, true, false], "{parameter:?}");
    }
}

/// A rejected parameter is omitted wherever the server reports it: by a status, in a stream, in a
/// reply with status 200, and inside the error of a gateway.
#[tokio::test]
async fn rejection_is_recognized_in_each_carrier() {
    let plain =
        json!({"error": {"message": "Unsupported parameter: 'seed'", "code": "unsupported_parameter"}});
    let without_code = json!({"error": {"message": "Model does not support parameter seed."}});
    let wrapped = json!({"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": plain.to_string()}}});
    for body in [&plain, &without_code, &wrapped] {
        for (sent, is_streamed) in [
            (reply("400 Bad Request", "", &body.to_string()), false),
            (ok_reply(body), false),
            (chunks_reply([body]), false),
            (reply("400 Bad Request", "", &body.to_string()), true),
            (ok_reply(body), true),
            (chunks_reply([body]), true),
        ] {
            let server = Server::with_replies([sent, minimal_reply()]).await;
            let model = server.builder().max_retries(0).build().unwrap();
            let request = with_settings();
            if is_streamed {
                let events: Result<Vec<_>, _> = model.stream(&request).try_collect().await;
                assert!(events.is_ok(), "{body}: {events:?}");
            } else {
                model.chat(&request).await.unwrap();
            }
            let requests = server.take_requests();
            let sent: Vec<_> = requests.iter().map(|request| request.body.get("seed").is_some()).collect();
            assert_eq!(sent, [true, false], "{body}");
        }
    }
}
