//! Thinking in requests and replies.

use haft_anthropic::Thinking;
use haft_core::{
    Message, ToolCall, ToolOutput, ToolResult,
    message::AssistantMessage,
    model::{ChatModel as _, ChatRequest, ChatSettings, ToolChoice},
};
use serde_json::{Value, json};

use crate::server::{Server, decode, hello, message, ok_reply, sent, tools};

async fn fields(model: &str, thinking: Thinking, request: &ChatRequest) -> String {
    let body = sent(model, |it| it.thinking(thinking), request).await;
    let show = |key: &str| body.get(key).map_or_else(|| "-".to_owned(), Value::to_string);
    ["thinking", "max_tokens", "temperature", "top_p"].map(show).join(" ")
}

fn with_settings(settings: ChatSettings) -> ChatRequest {
    ChatRequest { settings, ..hello().with_tools(tools(["add".to_owned()])) }
}

/// Thinking that the API would reject is omitted, and so are sampling parameters with thinking.
#[tokio::test]
async fn thinking_is_sent_if_the_api_accepts_it() {
    let warm = ChatSettings { temperature: Some(0.5), top_p: Some(0.9), ..ChatSettings::default() };
    let short = ChatSettings { max_tokens: Some(3_000), ..ChatSettings::default() };
    let tiny = ChatSettings { max_tokens: Some(1_000), ..ChatSettings::default() };
    let budget = Thinking::Budget(30_000);
    let forced = ChatRequest { tool_choice: ToolChoice::Required, ..with_settings(ChatSettings::default()) };
    let lines = [
        fields("claude-opus-5-5", Thinking::Adaptive, &with_settings(warm.clone())).await,
        fields("claude-opus-5-5", Thinking::Off, &with_settings(warm.clone())).await,
        fields("claude-sonnet-4-6", Thinking::Off, &with_settings(warm.clone())).await,
        fields("claude-sonnet-4-5", budget, &with_settings(warm)).await,
        fields("claude-sonnet-4-5", budget, &with_settings(short)).await,
        fields("claude-sonnet-4-5", budget, &with_settings(tiny)).await,
        fields("claude-sonnet-4-5", budget, &forced).await,
        fields("claude-opus-5-5", Thinking::Adaptive, &forced).await,
    ];
    expect_test::expect![[r#"
        {"type":"adaptive"} 32000 - -
        {"type":"disabled"} 32000 - -
        {"type":"disabled"} 32000 0.5 -
        {"type":"enabled","budget_tokens":30000} 38192 - -
        {"type":"enabled","budget_tokens":1500} 3000 - -
        - 1000 - -
        - 38192 - -
        - 32000 - -"#]]
    .assert_eq(&lines.join("\n"));
}

/// Thinking blocks are sent back unchanged and in their place, also those without a text.
#[tokio::test]
async fn thinking_is_sent_back() {
    let blocks = json!([
        {"type": "thinking", "thinking": "I add.", "signature": "s1"},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "text", "text": "Let me see."},
        {"type": "thinking", "thinking": "", "signature": "s2"},
        {"type": "tool_use", "id": "t1", "name": "add", "input": {"x": 1}},
        {"type": "thinking", "thinking": "Twice.", "signature": "s3"},
        {"type": "tool_use", "id": "t2", "name": "add", "input": {}, "caller": {"type": "direct"}},
    ]);
    let (reply, _) = decode(&message(blocks.clone(), "tool_use")).await.unwrap();
    assert_eq!(reply.message.reasoning.as_deref(), Some("I add.\n\nTwice."));
    let stored = reply.message.provider_data.get("anthropic").unwrap().to_string();
    assert!(!stored.contains("I add") && !stored.contains("see") && !stored.contains("\"x\":1"), "{stored}");
    let again = resend(reply.message, &blocks).await;
    assert_eq!(again, blocks);
}

/// Sends a reply with `blocks` back to the server that has sent it. Returns its blocks in the request.
/// `message` is the reply of another server, whose thinking is not sent.
async fn resend(message: AssistantMessage, blocks: &Value) -> Value {
    let whole = crate::server::message(blocks.clone(), "tool_use");
    let replies = [ok_reply(&whole), ok_reply(&whole), ok_reply(&whole)];
    let server = Server::with_replies(replies).await;
    let model = server.builder("claude-sonnet-4-5").thinking(Thinking::Budget(2_000)).build().unwrap();
    let own = model.chat(&hello()).await.unwrap().message;
    let results = |reply| {
        let result = |id| Message::tool(ToolResult::done(id, "add", ToolOutput::from("3")));
        ChatRequest::new([Message::user("Add."), Message::assistant(reply), result("t1"), result("t2")])
    };
    model.chat(&results(own)).await.unwrap();
    model.chat(&results(message)).await.unwrap();
    let [_, own, foreign] = server.take_requests().try_into().ok().unwrap();
    assert!(own.body.get("thinking").is_some());
    // The thinking of another server is omitted, and then the API rejects manual thinking.
    assert!(foreign.body.get("thinking").is_none());
    assert!(!foreign.body.to_string().contains("signature"));
    let mut content = own.body["messages"][1]["content"].clone();
    content
        .as_array_mut()
        .unwrap()
        .iter_mut()
        .for_each(|block| drop(block.as_object_mut().unwrap().remove("cache_control")));
    content
}

#[tokio::test]
async fn manual_thinking_is_omitted_in_a_tool_loop_of_another_model() {
    let calls = vec![ToolCall::new("a", "add", "{}")];
    let reply = AssistantMessage { tool_calls: calls, ..AssistantMessage::default() };
    let result = Message::tool(ToolResult::done("a", "add", ToolOutput::from("3")));
    let mut messages = vec![Message::user("Add."), Message::assistant(reply), result];
    let request = |messages: &[Message]| ChatRequest::new(messages.to_vec());
    let budget = Thinking::Budget(2_000);
    assert!(fields("claude-sonnet-4-5", budget, &request(&messages)).await.starts_with("- "));
    assert!(fields("claude-opus-5-5", Thinking::Adaptive, &request(&messages)).await.starts_with("{"));
    messages.extend([Message::assistant("3"), Message::user("Again.")]);
    assert!(fields("claude-sonnet-4-5", budget, &request(&messages)).await.starts_with("{"));
}

/// A parameter that the model rejects is omitted in a retry, and in later requests. Some gateways send
/// the error with status 200.
#[tokio::test]
async fn rejected_parameter_is_omitted() {
    let rejection = |status: &str, message: &str| {
        let body = json!({"type": "error", "error": {"type": "invalid_request_error", "message": message}});
        crate::server::reply(status, "", &body.to_string())
    };
    let ok = ok_reply(&message(json!([{"type": "text", "text": "Hi"}]), "end_turn"));
    let server = Server::with_replies([
        rejection(
            "400 Bad Request",
            "\"thinking.type.disabled\" is not supported for this model. Use \"output_config.effort\".",
        ),
        rejection("200 OK", "`temperature` is deprecated for this model."),
        ok.clone(),
        ok,
    ])
    .await;
    let model = server.builder("claude-sonnet-4-6").thinking(Thinking::Off).effort("low").build().unwrap();
    let settings = ChatSettings { temperature: Some(0.5), ..ChatSettings::default() };
    model.chat(&with_settings(settings.clone())).await.unwrap();
    model.chat(&with_settings(settings)).await.unwrap();
    let requests = server.take_requests();
    let keys = ["thinking", "temperature", "output_config"];
    let sent: Vec<_> = requests.iter().map(|it| keys.map(|key| it.body.get(key).is_some())).collect();
    assert_eq!(sent, [[true, true, true], [false, true, true], [false, false, true], [false, false, true]]);
}
