use crate::ModelMiddleware as _;
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _, join};
use serde_json::{Map, Value, json};

use super::ReplyCache;
use haft_core::{
    ChatModel, Message, Schema, Timestamp, ToolCall, ToolDefinition, ToolError, ToolName, ToolOutput,
    ToolResult,
    content::Content,
    message::AssistantMessage,
    model::{
        ChatEvent, ChatModelExt as _, ChatRequest, ChatResponse, ChatSettings, FinishReason, ModelError,
        ResponseFormat, ToolChoice,
    },
    tool::DynamicTool,
    toolset::ToolList,
    usage::{Cost, Price, Prices, Usage},
};
use haft_testing::{ScriptedModel, TestModel, conformance};

const MINUTE: Duration = Duration::from_secs(60);

fn request() -> ChatRequest {
    ChatRequest::new([Message::user("Hi")])
}

async fn reply_text(model: &impl ChatModel, request: &ChatRequest) -> String {
    model.chat(request).await.unwrap().message.text()
}

async fn events(model: &impl ChatModel, request: &ChatRequest) -> Vec<ChatEvent> {
    model.stream(request).try_collect().await.unwrap()
}

#[tokio::test]
async fn equal_request_gets_the_cached_reply_whole_or_streamed() {
    let scripted = ScriptedModel::new().reply_text("one").reply_chunks(["t", "wo"]);
    let model = scripted.clone().cached(&ReplyCache::new(MINUTE));
    let other = ChatRequest::new([Message::user("Hello")]);
    assert_eq!(reply_text(&model, &request()).await, "one");
    assert_eq!(events(&model, &other).await.len(), 3);
    for _ in 0..2 {
        assert_eq!(
            (reply_text(&model, &request()).await.as_str(), reply_text(&model, &other).await.as_str()),
            ("one", "two")
        );
        let again = events(&model, &other).await;
        assert_eq!(again[0], ChatEvent::TextDelta { text: "two".to_owned() });
        assert!(matches!(&again[1..], [ChatEvent::Finished(reply)] if reply.message.text() == "two"));
    }
    assert_eq!(scripted.requests().len(), 2);
}

#[tokio::test]
async fn cached_calls_keep_their_ids() {
    let model =
        ScriptedModel::new().reply_calls([("call_7", "add", r#"{"x":1}"#)]).cached(&ReplyCache::new(MINUTE));
    let first = model.chat(&request()).await.unwrap();
    assert_eq!(model.chat(&request()).await.unwrap().message, first.message);
    let again = events(&model, &request()).await;
    assert!(
        matches!(&again[0], ChatEvent::ToolCallStarted { id, name, .. } if id == "call_7" && name == "add")
    );
}

#[tokio::test(start_paused = true)]
async fn entries_expire_after_the_ttl() {
    let cache = ReplyCache::new(MINUTE);
    let late = ScriptedModel::new().reply_text("one").reply_text("two").reply_text("three");
    let model = late.cached(&cache);
    assert_eq!(reply_text(&model, &request()).await, "one");
    tokio::time::advance(Duration::from_secs(59)).await;
    assert_eq!(reply_text(&model, &request()).await, "one");
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(reply_text(&model, &request()).await, "two");
    cache.clear();
    assert_eq!(reply_text(&model, &request()).await, "three");
}

#[tokio::test]
async fn clear_affects_replies_in_progress() {
    let cache = ReplyCache::new(MINUTE);
    let model = ScriptedModel::new().reply_chunks(["o", "ne"]).reply_text("two").cached(&cache);
    let request = request();
    let mut events = model.stream(&request);
    events.next().await.unwrap().unwrap();
    cache.clear();
    events.try_collect::<Vec<_>>().await.unwrap();
    assert_eq!(reply_text(&model, &request).await, "two");
}

#[tokio::test]
async fn only_complete_replies_are_cached() {
    let stopped = |reason| ChatResponse { finish_reason: reason, ..ChatResponse::new("Hel") };
    let refusal = AssistantMessage { refusal: Some("No.".to_owned()), ..AssistantMessage::default() };
    let text = ChatEvent::TextDelta { text: "Hel".to_owned() };
    let truncated = || ModelError::Truncated { reason: "gone".to_owned(), partial: Box::new("Hel".into()) };
    let scripted = ScriptedModel::new()
        .fail(truncated())
        .reply(stopped(FinishReason::Length))
        .reply(stopped(FinishReason::ContentFilter))
        .reply(stopped(FinishReason::Other("paused".to_owned())))
        .reply(ChatResponse::new(refusal))
        .reply_text(" ")
        .reply_events([Ok(text.clone()), Err(truncated())])
        .reply_events([Ok(text.clone()), Ok(ChatEvent::Finished(stopped(FinishReason::Length).into()))])
        .reply_chunks(["Hel", "lo."])
        .reply_text("Hello.");
    let model = scripted.clone().cached(&ReplyCache::new(MINUTE));
    let request = request();
    for _ in 0..6 {
        drop(model.chat(&request).await);
    }
    for _ in 0..2 {
        assert_eq!(*model.stream(&request).next().await.unwrap().as_ref().unwrap(), text);
        assert!(scripted.requests().len() > 6);
    }
    // A reply whose stream is dropped before its end is not cached.
    drop(model.stream(&request).next().await);
    assert_eq!(reply_text(&model, &request).await, "Hello.");
    assert_eq!(reply_text(&model, &request).await, "Hello.");
    assert_eq!(scripted.requests().len(), 10);
}

fn tools(description: &str) -> ToolList {
    let definition = ToolDefinition::new(ToolName::new("add").unwrap(), Schema::object());
    let definition = definition.with_description(description);
    ToolList::new(
        "test",
        [DynamicTool::new(definition, |_, _| async { Ok::<ToolOutput, ToolError>("".into()) })],
    )
}

/// Creates a model request whose messages contain one tool call with the given `id` and `output`.
/// `signature` is the provider data of the assistant message with the call.
fn conversation(id: &str, output: &str, signature: Value) -> ChatRequest {
    let mut reply =
        AssistantMessage { tool_calls: vec![ToolCall::new(id, "add", "{}")], ..AssistantMessage::default() };
    reply.provider_data.insert("openai", signature);
    let result = ToolResult::done(id, "add", ToolOutput::from(output));
    ChatRequest::new([Message::user("Hi"), Message::assistant(reply), Message::tool(result)])
}

/// Two requests that differ in any data sent to the server must not share a cached reply.
#[tokio::test]
async fn key_contains_everything_that_is_sent() {
    let settings = |settings| ChatRequest { settings, ..request() };
    let named_format =
        |name| ResponseFormat::JsonSchema { name: ToolName::sanitize(name), schema: Schema::object() };
    let instructed =
        |text: &str| ChatRequest { instructions: Some(Message::system(text).into()), ..request() };
    let picture = |byte: u8| Message::user(Content::from_bytes([byte], "image/png"));
    let picture_result = |warning: &str| {
        let output = ToolOutput::from(Content::from_bytes([1], "image/png")).with_warning(warning);
        ChatRequest::new([
            Message::assistant(AssistantMessage {
                tool_calls: vec![ToolCall::new("call_1", "draw", "{}")],
                ..AssistantMessage::default()
            }),
            Message::tool(ToolResult::done("call_1", "draw", output)),
        ])
    };
    let requests = [
        request(),
        ChatRequest::new([Message::user("Hi"), Message::user("Hi")]),
        ChatRequest::new([Message::system("Hi")]),
        ChatRequest::new([Message::assistant("Hi")]),
        ChatRequest::new([picture(1)]),
        ChatRequest::new([picture(2)]),
        instructed("Be brief."),
        instructed("Be long."),
        request().with_tools(tools("Adds.")),
        request().with_tools(tools("Adds numbers.")),
        ChatRequest { tool_choice: ToolChoice::None, ..request().with_tools(tools("Adds.")) },
        ChatRequest { response_format: ResponseFormat::JsonObject, ..request() },
        ChatRequest { response_format: named_format("one"), ..request() },
        ChatRequest { response_format: named_format("two"), ..request() },
        settings(ChatSettings { seed: Some(1), ..ChatSettings::default() }),
        settings(ChatSettings { seed: Some(2), ..ChatSettings::default() }),
        settings(ChatSettings { max_tokens: Some(1), ..ChatSettings::default() }),
        conversation("call_1", "42", json!("a")),
        conversation("call_2", "42", json!("a")),
        conversation("call_1", "43", json!("a")),
        conversation("call_1", "42", json!("b")),
        picture_result("it is one hour old"),
        picture_result("it is two hours old"),
    ];
    let scripted =
        (0..requests.len()).fold(ScriptedModel::new(), |model, nth| model.reply_text(nth.to_string()));
    let model = scripted.cached(&ReplyCache::new(MINUTE));
    for _ in 0..2 {
        for (nth, request) in requests.iter().enumerate() {
            assert_eq!(reply_text(&model, request).await, nth.to_string());
        }
    }
}

#[tokio::test]
async fn key_ignores_timestamps_and_metadata() {
    let model = ScriptedModel::new().reply_text("one").reply_text("two").cached(&ReplyCache::new(MINUTE));
    let annotated = Message::user("Hi").with_metadata(Map::from_iter([("page".to_owned(), json!(3))]));
    let annotated = ChatRequest::new([annotated.with_created_at(Timestamp::now())]);
    assert_eq!(
        (reply_text(&model, &request()).await, reply_text(&model, &annotated).await),
        ("one".to_owned(), "one".to_owned())
    );
    for _ in 0..2 {
        // The request contains an equal tool list and an equal tool result, but both are new. The
        // timestamp of the tool result is not part of the cache key.
        let later = conversation("call_1", "42", json!("a")).with_tools(tools("Adds."));
        assert_eq!(reply_text(&model, &later).await, "two");
    }
}

#[tokio::test]
async fn cached_reply_costs_nothing_and_counts_as_a_request() {
    let usage = Usage { cached_input_tokens: 10, reasoning_tokens: 5, ..Usage::one_request(1_000, 100) };
    let scripted = ScriptedModel::new().reply(ChatResponse { usage, ..ChatResponse::new("Hello.") });
    let prices = Prices::new().with_price("scripted", Price::new(1.0, 1.0));
    let model = scripted.cached(&ReplyCache::new(MINUTE)).priced(prices);
    let first = model.chat(&request()).await.unwrap().usage;
    assert_eq!((first.cost, first.cached_input_tokens), (Cost::new(0.0011), 10));
    let again = model.chat(&request()).await.unwrap().usage;
    assert_eq!((again.cost, again.is_priced(), again.requests), (Cost::ZERO, true, 1));
    assert_eq!((again.input_tokens, again.cached_input_tokens, again.output_tokens), (1_000, 1_000, 100));
}

#[tokio::test]
async fn each_model_has_its_own_replies() {
    let cache = ReplyCache::new(MINUTE);
    let one = ScriptedModel::new().reply_text("one").cached(&cache);
    let two = ScriptedModel::new().reply_text("two").cached(&cache);
    for _ in 0..2 {
        assert_eq!(
            (reply_text(&one, &request()).await, reply_text(&two, &request()).await),
            ("one".to_owned(), "two".to_owned())
        );
        // Clones of a model share their cached replies.
        assert_eq!(reply_text(&one.clone(), &request()).await, "one");
    }
}

/// A request must never wait for an equal request in progress, because that request may hang.
#[tokio::test]
async fn concurrent_equal_requests_are_not_coalesced() {
    let scripted = ScriptedModel::new().hang().reply_text("one").reply_text("two");
    let model = scripted.clone().cached(&ReplyCache::new(MINUTE));
    let (request, other) = (request(), ChatRequest::new([Message::user("Hello")]));
    let mut hangs = model.chat(&request);
    assert!(hangs.as_mut().now_or_never().is_none());
    assert_eq!(reply_text(&model, &request).await, "one");
    drop(hangs);
    let both = join!(reply_text(&model, &request), reply_text(&model, &other));
    assert_eq!(both, ("one".to_owned(), "two".to_owned()));
}

#[tokio::test]
async fn least_recently_used_reply_is_evicted_first() {
    let request = |text: &str| ChatRequest::new([Message::user(text)]);
    let long = "x".repeat(400);
    for cache in [ReplyCache::new(MINUTE).with_max_entries(2), ReplyCache::new(MINUTE).with_max_bytes(1_400)]
    {
        let scripted =
            (0..4).fold(ScriptedModel::new(), |model, nth| model.reply_text(format!("{nth}{long}")));
        let model = scripted.clone().cached(&cache);
        for text in ["a", "b", "a", "c", "a", "b"] {
            reply_text(&model, &request(text)).await;
        }
        let sent: Vec<_> =
            scripted.requests().iter().map(|it| it.messages.iter().next().unwrap().text()).collect();
        assert_eq!(sent, ["a", "b", "c", "b"]);
    }
    let model = ScriptedModel::new()
        .reply_text(&*long)
        .reply_text("two")
        .cached(&ReplyCache::new(MINUTE).with_max_bytes(300));
    assert_eq!(reply_text(&model, &request("a")).await, long);
    assert_eq!(reply_text(&model, &request("a")).await, "two");
}

#[tokio::test]
async fn cached_model_conforms() {
    let cache = ReplyCache::new(MINUTE);
    conformance::model(TestModel::new().cached(&cache)).assume_deterministic().await.assert_conforms();
    conformance::model(TestModel::new().cached(&ReplyCache::new(Duration::ZERO)))
        .assume_deterministic()
        .await
        .assert_conforms();
    let scripted = ScriptedModel::new().reply_text("Hello.").reply_text("{\"city\": \"Paris\"}");
    let profile = haft_core::model::ModelProfile {
        supports_native_tools: false,
        ..haft_core::model::ModelProfile::new("words")
    };
    conformance::model(scripted.with_profile(profile).cached(&cache))
        .assume_deterministic()
        .await
        .assert_conforms();
}
