//! Tests of the conversions to and from the types of `async-openai`, and of the model
//! `AsyncOpenAi`.

use std::{sync::Arc, time::Duration};

use async_openai::{
    Client,
    config::{AzureConfig, Config, OpenAIConfig},
    types::chat::{
        ChatCompletionMessageCustomToolCall, ChatCompletionMessageToolCalls,
        ChatCompletionRequestFunctionMessage, ChatCompletionRequestMessage, CreateChatCompletionResponse,
    },
};
use expect_test::expect;
use futures::{StreamExt as _, TryStreamExt as _};
use haft_core::{
    ChatModel, Message, Schema, ToolCall, ToolDefinition, ToolName, ToolResult,
    content::Content,
    message::{AssistantMessage, MessageBody},
    model::{ChatEvent, ChatRequest, FinishReason, ModelError, ResponseFormat, ToolChoice},
    schema::SchemaTarget,
    tool::DynamicTool,
    toolset::ToolList,
    usage::Usage,
};
use haft_openai::interop::{
    AsyncOpenAi, InteropError, from_messages, from_response, from_tool, from_tool_calls, from_usage,
    to_message, to_messages, to_tool, to_tool_call, to_tools, to_usage,
};
use serde_json::{Value, json};

use crate::server::{STREAM, Server, Step, chunks_reply, header, hello, ok_reply, reply, stream_reply};

/// Creates a client of async-openai. The client's version of `reqwest` requires a default TLS
/// provider for the process, so this function installs one.
fn client_of<C: Config>(config: C) -> Client<C> {
    install_tls();
    Client::with_config(config)
}

fn install_tls() {
    // Installing fails if a provider is already installed, for example by another test. The error
    // is ignored.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

fn add() -> ToolDefinition {
    let schema = json!({"properties": {"x": {"type": "integer"}}, "required": ["x"]});
    ToolDefinition::new(ToolName::new("add").unwrap(), Schema::for_arguments(schema).unwrap())
        .with_description("Adds.")
}

fn tool_list() -> ToolList {
    ToolList::new("test", [DynamicTool::new(add(), |_, _| async {})])
}

fn openai(server: &Server) -> AsyncOpenAi<OpenAIConfig> {
    let config = OpenAIConfig::new().with_api_base(&server.base_url).with_api_key("sk-secret-1");
    AsyncOpenAi::new(client_of(config), "gpt-4o")
}

#[test]
fn tools_convert_in_both_directions() {
    let tool = to_tool(&add(), SchemaTarget::OpenAiStrict);
    expect![[r#"{"type":"function","function":{"name":"add","description":"Adds.","parameters":{"type":"object","properties":{"x":{"type":"integer"}},"required":["x"],"additionalProperties":false},"strict":true}}"#]]
        .assert_eq(&json!(tool).to_string());
    assert_eq!(to_tools(&tool_list(), SchemaTarget::OpenAiStrict), [tool]);
    let back = from_tool(&to_tool(&add(), SchemaTarget::OpenAi)).unwrap();
    assert_eq!(json!(back), json!(add()));
}

#[test]
fn tool_without_counterpart_is_an_error() {
    let tool = |tool: Value| from_tool(&serde_json::from_value(tool).unwrap()).unwrap_err();
    let custom = tool(json!({"type": "custom", "custom": {"name": "x", "format": {"type": "text"}}}));
    assert_eq!(custom.to_string(), "a custom tool cannot be converted");
    let name = tool(json!({"type": "function", "function": {"name": "no name"}}));
    assert!(matches!(name, InteropError::InvalidToolName(_)));
    let schema = json!({"type": "function", "function": {"name": "add", "parameters": {"type": "array"}}});
    assert!(matches!(tool(schema), InteropError::InvalidSchema { .. }));
}

/// Returns a conversation with each kind of message.
fn conversation() -> Vec<Message> {
    let user = vec![Content::text("What is this?"), Content::from_bytes(*b"cat", "image/png")];
    let mut called = AssistantMessage::from("Let me see.");
    called.tool_calls.push(ToolCall::new("call_1", "add", r#"{"x":1}"#));
    vec![
        Message::system("Be brief."),
        Message::new(MessageBody::User { content: user }),
        Message::assistant(called),
        Message::tool(ToolResult::done("call_1", "add", "42".into())),
        Message::assistant("42"),
    ]
}

#[test]
fn messages_convert_in_both_directions() {
    let messages: Vec<_> = conversation().into_iter().map(Arc::new).collect();
    let wire = to_messages(&messages).unwrap();
    let roles: Vec<_> = wire.iter().map(|message| json!(message)["role"].clone()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "assistant"]);
    let back = from_messages(&wire).unwrap();
    for (back, message) in back.iter().zip(&messages) {
        let outcome = |message: &Message| match message.body() {
            // The conversion drops the timestamps of tool results, so they are not compared.
            MessageBody::Tool(result) => json!([result.call_id, result.name, result.outcome]),
            body => json!(body),
        };
        assert_eq!(outcome(back), outcome(message));
    }
    assert_eq!(to_messages(back.into_iter().map(Arc::new).collect::<Vec<_>>().iter()).unwrap(), wire);
}

/// Mistral sends reasoning as content parts of the type `thinking`, and stores a mark in the
/// provider data. async-openai has no such part.
#[test]
fn provider_data_without_counterpart_is_dropped() {
    let mut reply = AssistantMessage { reasoning: Some("Easy.".to_owned()), ..AssistantMessage::from("42") };
    let data = json!({"thinking_parts": true, "from": "https://api.mistral.ai"});
    reply.provider_data.insert("chat_completions", data);
    let message = Arc::new(Message::assistant(reply));
    let wire = json!({"role": "assistant", "content": "42"});
    assert_eq!(json!(to_message(&message).unwrap()), wire);
    assert_eq!(json!(to_messages([&message]).unwrap()), json!([wire]));
}

#[test]
fn message_without_counterpart_is_an_error() {
    let error = |message: ChatCompletionRequestMessage| from_messages([&message]).unwrap_err();
    let parse = |message: Value| serde_json::from_value::<ChatCompletionRequestMessage>(message).unwrap();
    let image = json!({"type": "image_url", "image_url": {"url": "https://example.com/cat.png"}});
    assert_eq!(
        error(parse(json!({"role": "user", "content": [image]}))).to_string(),
        "an image cannot be converted"
    );
    let sound = json!({"type": "input_audio", "input_audio": {"data": "?", "format": "wav"}});
    let sound = error(parse(json!({"role": "user", "content": [sound]})));
    assert!(matches!(sound, InteropError::InvalidBase64 { kind: "audio" }));
    let result = error(parse(json!({"role": "tool", "content": "42", "tool_call_id": "call_1"})));
    assert!(matches!(result, InteropError::UnknownCall { id } if id == "call_1"));
    assert!(matches!(
        error(ChatCompletionRequestFunctionMessage::default().into()),
        InteropError::Unsupported { kind: "a function message" }
    ));
}

#[test]
fn calls_convert_in_both_directions() {
    let call = ToolCall::new("call_1", "add", r#"{"x":1}"#);
    assert_eq!(from_tool_calls([&to_tool_call(&call)]).unwrap(), [call]);
    let custom = ChatCompletionMessageToolCalls::Custom(ChatCompletionMessageCustomToolCall::default());
    assert!(from_tool_calls([&custom]).is_err());
    assert!(to_message(&Message::user("Hi")).is_ok());
}

#[test]
fn usage_converts_in_both_directions() {
    let usage = Usage { cached_input_tokens: 5, reasoning_tokens: 3, ..Usage::one_request(10, 4) };
    assert_eq!(from_usage(&to_usage(&usage)), usage);
    assert_eq!(to_usage(&Usage::one_request(u64::MAX, 1)).prompt_tokens, u32::MAX);
}

fn completion(message: &Value, finish_reason: &str) -> Value {
    json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "gpt-4o-2024",
        "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": finish_reason}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13},
    })
}

fn hi() -> Value {
    completion(&json!({"role": "assistant", "content": "Hi"}), "stop")
}

fn chunk(delta: Value, finish_reason: Option<&str>) -> Value {
    json!({
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o-2024",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}],
    })
}

#[test]
fn response_converts() {
    let response: CreateChatCompletionResponse = serde_json::from_value(hi()).unwrap();
    let response = from_response(&response).unwrap();
    assert_eq!((response.message.text().as_str(), response.finish_reason), ("Hi", FinishReason::Stop));
    assert_eq!(response.usage, Usage::one_request(9, 4));
    assert_eq!(response.model.as_deref(), Some("gpt-4o-2024"));
}

/// A call to a custom tool must not be dropped silently.
#[test]
fn response_with_a_custom_call_is_an_error() {
    let call = json!({"type": "custom", "id": "call_1", "custom_tool": {"name": "grep", "input": "x"}});
    let mut response = hi();
    response["choices"][0]["message"]["tool_calls"] = json!([call]);
    let response: CreateChatCompletionResponse = serde_json::from_value(response).unwrap();
    assert!(matches!(from_response(&response), Err(ModelError::InvalidResponse(_))));
}

#[tokio::test]
async fn request_has_messages_tools_and_settings() {
    let server = Server::with_replies([ok_reply(&hi())]).await;
    let mut request = hello().with_tools(tool_list());
    request.tool_choice = ToolChoice::Tool(ToolName::new("add").unwrap());
    request.settings.max_tokens = Some(100);
    request.settings.temperature = Some(0.5);
    request.settings.stop = vec!["END".to_owned()];
    request.response_format = ResponseFormat::JsonObject;
    let response = openai(&server).chat(&request).await.unwrap();
    assert_eq!(response.message.text(), "Hi");
    let [sent] = &server.take_requests()[..] else { panic!() };
    assert_eq!(header(&sent.head, "authorization"), Some("Bearer sk-secret-1"));
    expect![[r#"{"messages":[{"role":"user","content":"Hello"}],"model":"gpt-4o","max_completion_tokens":100,"response_format":{"type":"json_object"},"stop":["END"],"temperature":0.5,"tools":[{"type":"function","function":{"name":"add","description":"Adds.","parameters":{"type":"object","properties":{"x":{"type":"integer"}},"required":["x"]}}}],"tool_choice":{"type":"function","function":{"name":"add"}}}"#]]
        .assert_eq(&sent.body.to_string());
}

/// The `Config` of the client determines the URL, the query and the headers of each request.
#[tokio::test]
async fn any_config_works() {
    let server = Server::with_replies([ok_reply(&hi())]).await;
    let config = AzureConfig::new()
        .with_api_base(server.base_url.trim_end_matches("/v1"))
        .with_api_version("2024-10-21")
        .with_deployment_id("mine")
        .with_api_key("azure-key");
    AsyncOpenAi::new(client_of(config), "gpt-4o").chat(&hello()).await.unwrap();
    let head = server.take_requests().remove(0).head;
    assert!(
        head.starts_with("POST /openai/deployments/mine/chat/completions?api-version=2024-10-21"),
        "{head}"
    );
    assert_eq!(header(&head, "api-key"), Some("azure-key"));
    let shared: Arc<Client<Box<dyn Config>>> =
        Arc::new(client_of(Box::new(OpenAIConfig::new()) as Box<dyn Config>));
    assert_eq!(AsyncOpenAi::new(shared, "gpt-5").clone().profile().name, "gpt-5");
}

#[tokio::test]
async fn stream_emits_deltas_and_the_whole_reply() {
    let call =
        json!({"index": 0, "id": "call_1", "type": "function", "function": {"name": "add", "arguments": ""}});
    let mut usage = chunk(json!({}), None);
    usage["choices"] = json!([]);
    usage["usage"] = json!({"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13});
    let sent = [
        chunk(json!({"role": "assistant", "content": "Hi"}), None),
        chunk(json!({"tool_calls": [call]}), None),
        chunk(json!({"tool_calls": [{"index": 0, "function": {"arguments": "{\"x\":1}"}}]}), None),
        chunk(json!({}), Some("tool_calls")),
        usage,
    ];
    let server = Server::with_replies([stream_reply(&sent)]).await;
    let request = hello().with_tools(tool_list());
    let mut events: Vec<_> = openai(&server).stream(&request).try_collect().await.unwrap();
    let Some(ChatEvent::Finished(response)) = events.pop() else { panic!("{events:?}") };
    assert_eq!(response.message.tool_calls, [ToolCall::new("call_1", "add", r#"{"x":1}"#)]);
    assert_eq!((response.usage, response.finish_reason), (Usage::one_request(9, 4), FinishReason::ToolCalls));
    assert!(matches!(&events[0], ChatEvent::TextDelta { text } if text == "Hi"));
    assert!(matches!(&events[1], ChatEvent::ToolCallStarted { name, .. } if name == "add"));
    let body = &server.take_requests()[0].body;
    assert_eq!((&body["stream"], &body["stream_options"]["include_usage"]), (&json!(true), &json!(true)));
}

/// async-openai rejects replies without `id`, `created` or `index`, and replies with arguments as
/// an object. haft parses the body of a rejected reply again, so these replies are accepted.
#[tokio::test]
async fn lenient_reader_accepts_what_the_client_rejects() {
    let call = json!({"function": {"name": "add", "arguments": {"x": 1}}});
    let malformed = json!({"choices": [{"message": {"tool_calls": [call]}, "finish_reason": "weird"}]});
    let server = Server::with_replies([ok_reply(&malformed)]).await;
    let response = openai(&server).chat(&hello()).await.unwrap();
    assert_eq!(response.message.tool_calls[0].arguments, r#"{"x":1}"#);
    assert_eq!(response.finish_reason, FinishReason::Other("weird".to_owned()));

    let malformed = [
        json!({"choices": [{"delta": {"content": "Hi"}}]}),
        json!({"choices": [{"delta": {}, "finish_reason": "eos"}]}),
    ];
    let server = Server::with_replies([stream_reply(&malformed)]).await;
    let events: Vec<_> = openai(&server).stream(&hello()).try_collect().await.unwrap();
    assert!(matches!(&events[..], [ChatEvent::TextDelta { .. }, ChatEvent::Finished(_)]), "{events:?}");
}

#[tokio::test]
async fn early_end_of_a_stream_is_truncated() {
    let server = Server::with_replies([chunks_reply(&[chunk(json!({"content": "Once"}), None)])]).await;
    let events: Vec<_> = openai(&server).stream(&hello()).collect().await;
    let [Ok(_), Err(ModelError::Truncated { partial, .. })] = &events[..] else { panic!("{events:?}") };
    assert_eq!(partial.text(), "Once");
}

#[tokio::test]
async fn error_in_a_stream_keeps_its_kind() {
    let error = json!({"error": {"message": "slow down", "type": "rate_limit_error", "code": 429}});
    let server =
        Server::with_replies([stream_reply(&[chunk(json!({"content": "Once"}), None), error])]).await;
    let events: Vec<_> = openai(&server).stream(&hello()).collect().await;
    assert!(
        matches!(&events[..], [Ok(_), Err(ModelError::RateLimited { permanent: false, .. })]),
        "{events:?}"
    );
}

/// A stream finishes even if the server sends neither the usage nor `[DONE]` and keeps the
/// connection open.
#[tokio::test]
async fn stream_finishes_without_done() {
    let sent = [chunk(json!({"content": "Hi"}), None), chunk(json!({}), Some("stop"))];
    let sent: String = sent.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    let server = Server::start([vec![Step::Send((STREAM.to_owned() + &sent).into()), Step::Stall]]).await;
    let events: Vec<_> = openai(&server).stream(&hello()).try_collect().await.unwrap();
    assert!(matches!(events.last(), Some(ChatEvent::Finished(_))));
}

async fn error_of(replies: Vec<Vec<u8>>) -> ModelError {
    openai(&Server::with_replies(replies).await).chat(&hello()).await.unwrap_err()
}

#[tokio::test]
async fn errors_are_mapped_by_status_and_code() {
    let body = |code: &str| json!({"error": {"message": "no sk-secret-1", "type": "x", "param": null, "code": code}});
    let unauthorized =
        error_of(vec![reply("401 Unauthorized", "", &body("invalid_api_key").to_string())]).await;
    assert!(
        matches!(&unauthorized, ModelError::Unauthorized(text) if text == "no [secret]"),
        "{unauthorized:?}"
    );
    let long =
        error_of(vec![reply("400 Bad Request", "", &body("context_length_exceeded").to_string())]).await;
    assert!(matches!(long, ModelError::ContextTooLong(_)), "{long:?}");
    let quota = json!({"error": {"message": "none left", "type": "insufficient_quota", "param": null, "code": "insufficient_quota"}});
    let quota = reply("429 Too Many Requests", "", &quota.to_string());
    let quota = error_of(vec![quota]).await;
    assert!(matches!(quota, ModelError::RateLimited { permanent: true, .. }), "{quota:?}");
}

/// The client of async-openai retries three times by itself, so each case needs four responses.
#[tokio::test]
async fn retried_statuses_are_transient_errors() {
    let body = json!({"error": {"message": "slow down", "type": null, "param": null, "code": null}});
    let busy = || reply("429 Too Many Requests", "retry-after: 0\r\n", &body.to_string());
    let busy = error_of(vec![busy(), busy(), busy(), busy()]).await;
    assert!(matches!(busy, ModelError::RateLimited { permanent: false, .. }), "{busy:?}");
    let failing = || reply("503 Service Unavailable", "retry-after: 0\r\n", "<html>overloaded</html>");
    let failing = error_of(vec![failing(), failing(), failing(), failing()]).await;
    assert!(matches!(failing, ModelError::Server { status: Some(503), .. }), "{failing:?}");
}

#[tokio::test]
async fn unreadable_and_unreachable_servers_are_errors() {
    let html = error_of(vec![reply("404 Not Found", "", "<html>no such page</html>")]).await;
    assert!(matches!(html, ModelError::InvalidResponse(_)), "{html:?}");
    let server = Server::start([vec![Step::Stall]]).await;
    install_tls();
    let http = reqwest::Client::builder().timeout(Duration::from_millis(50)).build().unwrap();
    let config = OpenAIConfig::new().with_api_base(&server.base_url);
    let model = AsyncOpenAi::new(client_of(config).with_http_client(http), "gpt-4o");
    let error = model.chat(&hello()).await.unwrap_err();
    assert!(matches!(error, ModelError::Unreachable { .. }) && error.is_transient(), "{error:?}");
}

/// OpenAI accepts only an object as the root of a response schema, so any other schema is wrapped.
#[tokio::test]
async fn response_schema_is_wrapped_and_the_reply_unwrapped() {
    let schema = Schema::new(json!({"type": "array", "items": {"type": "integer"}})).unwrap();
    let request = ChatRequest {
        response_format: ResponseFormat::JsonSchema { name: ToolName::new("list").unwrap(), schema },
        ..hello()
    };
    let reply = completion(&json!({"role": "assistant", "content": "{\"value\":[1,2]}"}), "stop");
    let server = Server::with_replies([ok_reply(&reply)]).await;
    assert_eq!(openai(&server).chat(&request).await.unwrap().message.text(), "[1,2]");
    let format = &server.take_requests()[0].body["response_format"]["json_schema"];
    assert_eq!((&format["name"], &format["schema"]["type"]), (&json!("list"), &json!("object")));
}

/// A server gets its own ids back, although the types of `async-openai` have no opaque data.
#[tokio::test]
async fn own_call_ids_are_sent_back_unchanged() {
    let id = "x".repeat(300);
    let call =
        json!({"index": 0, "id": id, "type": "function", "function": {"name": "add", "arguments": "{}"}});
    let choice = json!({"index": 0, "message": {"role": "assistant", "tool_calls": [call]}, "finish_reason": "tool_calls"});
    let whole =
        json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]});
    // `async-openai` rejects this reply, so it is parsed again.
    let lenient = json!({"choices": [{"message": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]});
    let chunk =
        json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]});
    let end = ok_reply(&json!({"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}));
    for first in [ok_reply(&whole), ok_reply(&lenient), stream_reply(&[chunk])] {
        let is_streamed = first.starts_with(STREAM.as_bytes());
        let server = Server::with_replies([first, end.clone(), end.clone()]).await;
        let own = openai(&server);
        let reply = if is_streamed {
            let events: Vec<_> = own.stream(&hello()).try_collect().await.unwrap();
            let Some(ChatEvent::Finished(reply)) = events.into_iter().last() else { panic!() };
            *reply
        } else {
            own.chat(&hello()).await.unwrap()
        };
        let result = ToolResult::done(&*id, "add", "1".into());
        let request = ChatRequest::new([Message::assistant(reply.message), Message::tool(result)]);
        own.chat(&request).await.unwrap();
        let other = AsyncOpenAi::new(
            client_of(OpenAIConfig::new().with_api_base(&server.base_url).with_api_key("k")),
            "gpt-5",
        );
        other.chat(&request).await.unwrap();
        let sent: Vec<_> = server.take_requests().into_iter().skip(1).map(|it| it.body).collect();
        assert_eq!(sent[0]["messages"][0]["tool_calls"][0]["id"], id);
        assert_eq!(sent[0]["messages"][1]["tool_call_id"], id);
        assert_eq!(sent[1]["messages"][1]["tool_call_id"].as_str().unwrap().len(), 21);
    }
}
