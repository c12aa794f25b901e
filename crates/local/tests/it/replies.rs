//! Replies: text, JSON, limits, and what is kept between requests.

use std::time::Instant;

use futures::StreamExt as _;
use haft_core::{
    ChatEvent, ChatModel, ChatRequest, FinishReason, Message, ModelError, ResponseFormat, Schema, ToolChoice,
    ToolName, ToolOutput, ToolResult,
};
use serde_json::{Value, json};

use crate::calls::request;
use crate::tiny::{CONTEXT, TinyFile};

fn question(text: &str) -> ChatRequest {
    let mut request = ChatRequest::new([Message::user(text)]);
    request.settings.max_tokens = Some(24);
    request.settings.temperature = Some(1.0);
    request.settings.seed = Some(7);
    request
}

#[tokio::test]
async fn text_has_a_limit_and_a_cost() {
    let model = TinyFile::new(0).load().await;
    let reply = model.chat(&question("Hello?")).await.unwrap();
    assert_eq!(reply.finish_reason, FinishReason::Length);
    assert_eq!(reply.usage.requests, 1);
    assert_eq!(reply.usage.output_tokens, 24);
    assert_eq!(reply.model.as_deref(), Some("tiny"));
    assert!(!reply.message.text().is_empty());
}

#[tokio::test]
async fn the_same_seed_gives_the_same_text() {
    let model = TinyFile::new(0).load().await;
    let mut request = question("Hello?");
    let first = model.chat(&request).await.unwrap().message;
    assert_eq!(model.chat(&request).await.unwrap().message, first);
    request.settings.seed = Some(8);
    assert_ne!(model.chat(&request).await.unwrap().message, first);
}

/// A step costs its new tokens only: the cache of the common prefix is kept between requests.
#[tokio::test]
async fn a_common_prefix_is_read_once() {
    let model = TinyFile::new(0).load().await;
    let mut request = question(&"A long question. ".repeat(20));
    // Random weights may also say nothing at all; a reply of this form is never empty.
    let schema = Schema::new(json!({"type": "boolean"})).unwrap();
    request.response_format = ResponseFormat::JsonSchema { name: ToolName::new("yes").unwrap(), schema };
    let first = model.chat(&request).await.unwrap();
    assert_eq!(first.usage.cached_input_tokens, 0);

    let messages =
        [request.messages.iter().next().unwrap().as_ref().clone(), Message::assistant(first.message)];
    request.messages = messages.into_iter().chain([Message::user("And?")]).collect();
    let second = model.chat(&request).await.unwrap();
    let read = second.usage.input_tokens - second.usage.cached_input_tokens;
    assert!(second.usage.cached_input_tokens >= first.usage.input_tokens, "{:?}", second.usage);
    assert!(read < 100, "{:?}", second.usage);
}

/// What the cache holds changes nothing of what is written.
#[tokio::test]
async fn a_cached_prefix_gives_the_same_reply() {
    let (warm, cold) = (TinyFile::new(3).load().await, TinyFile::new(3).load().await);
    for text in ["one", "one two", "one three", "four"] {
        let mut request = question(text);
        request.settings.temperature = Some(0.0);
        warm.chat(&question("one two three")).await.unwrap();
        let expected = cold.chat(&request).await.unwrap().message;
        assert_eq!(warm.chat(&request).await.unwrap().message, expected, "{text}");
    }
}

#[tokio::test]
async fn a_stream_is_the_reply_in_pieces() {
    let model = TinyFile::new(0).load().await;
    let request = question("Hello?");
    let events: Vec<_> = model.stream(&request).map(Result::unwrap).collect().await;
    let text: String = events
        .iter()
        .filter_map(|event| match event {
            ChatEvent::TextDelta { text } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert!(events.len() > 2);
    let Some(ChatEvent::Finished(reply)) = events.last() else { panic!("{events:?}") };
    assert_eq!(reply.message.text(), text);
    assert_eq!(
        *reply,
        model
            .chat(&request)
            .await
            .map(|again| haft_core::ChatResponse { usage: reply.usage, ..again })
            .unwrap()
    );
}

#[tokio::test]
async fn a_stop_text_ends_the_reply_before_it() {
    let model = TinyFile::new(0).load().await;
    let mut request = question("Hello?");
    let whole = model.chat(&request).await.unwrap().message.text();
    let middle: String = whole.chars().skip(8).take(2).collect();
    request.settings.stop = vec![middle.clone()];
    let reply = model.chat(&request).await.unwrap();
    assert_eq!(reply.message.text(), whole.split(&middle).next().unwrap().trim_end());
    assert_eq!(reply.finish_reason, FinishReason::Stop);
}

#[tokio::test]
async fn json_fits_its_schema() {
    let model = TinyFile::new(0).load().await;
    let schema = Schema::new(json!({"type": "object", "properties": {"n": {"enum": [1, 2]}, "s": {"type": "string", "maxLength": 9}}, "required": ["n", "s"]})).unwrap();
    for seed in 0..4 {
        let mut request = question("Give me JSON.");
        request.settings.max_tokens = None;
        request.settings.seed = Some(seed);
        let name = ToolName::new("thing").unwrap();
        request.response_format = ResponseFormat::JsonSchema { name, schema: schema.clone() };
        let reply = model.chat(&request).await.unwrap();
        let value: Value = serde_json::from_str(&reply.message.text()).unwrap();
        assert!(schema.is_valid(&value), "{value}");

        request.response_format = ResponseFormat::JsonObject;
        let text = model.chat(&request).await.unwrap().message.text();
        assert!(serde_json::from_str::<Value>(&text).unwrap().is_object());
    }
}

/// FAULTS M8: a half call never runs.
#[tokio::test]
async fn a_limit_inside_a_call_leaves_no_call() {
    let model = TinyFile::new(0).load().await;
    let schema = json!({"type": "object", "properties": {"s": {"type": "string", "minLength": 200}}, "required": ["s"]});
    let mut request = request(ToolChoice::Required, &schema);
    request.settings.max_tokens = Some(150);
    let reply = model.chat(&request).await.unwrap();
    assert_eq!(reply.finish_reason, FinishReason::Length);
    assert!(reply.message.tool_calls.is_empty());
    assert!(reply.usage.output_tokens <= 150);
}

#[tokio::test]
async fn the_choice_of_tools_is_kept() {
    let model = TinyFile::new(1).load().await;
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["n"]});
    let second = ToolName::new("second").unwrap();
    for seed in 0..3 {
        let chat = async |choice| {
            let mut request = request(choice, &schema);
            request.settings.seed = Some(seed);
            request.settings.temperature = Some(1.0);
            request.settings.max_tokens = Some(400);
            request.settings.parallel_tool_calls = Some(false);
            model.chat(&request).await.unwrap()
        };
        let named = chat(ToolChoice::Tool(second.clone())).await;
        assert_eq!(named.message.tool_calls.len(), 1);
        assert_eq!(named.message.tool_calls[0].name, "second");
        assert_eq!(chat(ToolChoice::Required).await.message.tool_calls.len(), 1);
        assert!(chat(ToolChoice::None).await.message.tool_calls.is_empty());
    }
}

#[tokio::test]
async fn a_choice_that_cannot_be_kept_is_refused() {
    let model = TinyFile::new(0).load().await;
    let unknown = ChatRequest {
        tool_choice: ToolChoice::Tool(ToolName::new("third").unwrap()),
        ..request(ToolChoice::Auto, &json!({"type": "object"}))
    };
    assert!(matches!(model.chat(&unknown).await, Err(ModelError::Unsupported(_))));
}

#[tokio::test]
async fn results_are_read_and_calls_answered() {
    let model = TinyFile::new(0).load().await;
    let mut request = request(ToolChoice::Required, &json!({"type": "object", "properties": {}}));
    let reply = model.chat(&request).await.unwrap();
    let call = reply.message.tool_calls[0].clone();
    let mut messages: Vec<_> = request.messages.iter().map(|message| message.as_ref().clone()).collect();
    messages.push(Message::assistant(reply.message));
    messages.push(Message::tool(ToolResult::done(call.id, call.name, ToolOutput::from("done"))));
    request.messages = messages.into_iter().collect();
    request.tool_choice = ToolChoice::None;
    request.settings.max_tokens = Some(8);
    let answer = model.chat(&request).await.unwrap();
    assert!(answer.message.tool_calls.is_empty());
    assert!(answer.usage.cached_input_tokens > 100, "{:?}", answer.usage);
}

#[tokio::test]
async fn a_conversation_that_is_too_long_is_refused() {
    let model = TinyFile::new(0).load().await;
    let request = question(&"word ".repeat(CONTEXT as usize));
    assert!(matches!(model.chat(&request).await, Err(ModelError::ContextTooLong(_))));
}

/// Dropping a reply ends it: the next request does not wait for what nobody reads.
#[tokio::test]
async fn a_dropped_reply_is_given_up() {
    let model = TinyFile::new(0).load().await;
    let mut long = question("Hello?");
    long.settings.max_tokens = Some(2000);
    let started = Instant::now();
    model.chat(&long).await.unwrap();
    let whole = started.elapsed();

    let mut stream = model.stream(&long);
    stream.next().await.unwrap().unwrap();
    drop(stream);
    let mut short = question("Hello?");
    short.settings.max_tokens = Some(1);
    let started = Instant::now();
    model.chat(&short).await.unwrap();
    assert!(started.elapsed() < whole / 4, "{:?} of {whole:?}", started.elapsed());
}

/// Text from outside is never read as the markup of the conversation.
#[tokio::test]
async fn markup_in_a_message_is_text() {
    let model = TinyFile::new(0).load().await;
    let plain = model.chat(&question("x")).await.unwrap().usage.input_tokens;
    let markup = "<|im_end|><|im_start|>";
    let marked = model.chat(&question(&format!("x{markup}"))).await.unwrap().usage.input_tokens;
    assert_eq!(marked - plain, markup.len() as u64, "a token for each byte, none for the markup");
}

#[tokio::test]
async fn requests_take_turns() {
    let model = TinyFile::new(0).load().await;
    let requests: Vec<_> = ["one", "two", "three"].map(question).into();
    let replies = futures::future::join_all(requests.iter().map(|request| model.chat(request))).await;
    for (request, reply) in requests.iter().zip(replies) {
        assert_eq!(reply.unwrap().message, model.chat(request).await.unwrap().message);
    }
}
